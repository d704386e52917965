"""Leaves while its children use up all processes, and write over the words in which it says farewell."""
import ctypes
import os
import random
import struct

with open("/proc/self/maps") as file:
    trace = next(int(line.split("-")[0], 16) for line in file if "memfd:trace" in line and line.split()[1] == "rw-s")


def storm():
    for stream in (0, 1, 2):
        os.close(stream)
    while True:
        try:
            os.fork()  # until there is no process left
        except OSError:
            pass
        word = random.randrange(8, 80, 8)  # of the header, behind its first
        ctypes.memmove(trace + word, struct.pack("<Q", random.getrandbits(64) >> random.randrange(64)), 8)


print("START", flush=True)
if os.fork() == 0:
    storm()
for number in range(2000):
    last = number
print("DONE")
