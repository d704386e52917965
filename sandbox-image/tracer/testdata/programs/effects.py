import os
import socket
import warnings


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None


class Handle:
    def __del__(self):
        raise KeyError("in __del__")


for _ in range(3):
    read("nothing.txt")
with open("made.txt", "w") as file:
    file.write("x")
read("made.txt")
os.rename("made.txt", "moved.txt")
os.remove("moved.txt")
try:
    socket.create_connection(("10.0.0.1", 80))
except OSError:
    pass
try:
    os.execv("/nothing", ["nothing", "to run"])
except OSError:
    pass
for _ in range(2):
    warnings.warn("twice, shown once")
Handle()
for i in range(2):
    try:
        raise IndexError(i)
    except IndexError:
        pass
raise SystemExit(3)
