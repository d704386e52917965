"""Says in the interpreter's place that it is about to end, and goes on: prints, forks, writes the trace."""
import ctypes
import os
import struct

itself = os.getpid()


def say_farewell(status):
    with open("/proc/self/maps") as file:
        for line in file:
            if "memfd:trace" in line and line.split()[1] == "rw-s":
                start = int(line.split("-")[0], 16)
                ctypes.memmove(start + 56, struct.pack("<3Q", 1 + status, itself, 1 << 62), 24)
                return start


print("START", flush=True)
if os.fork() == 0:
    for stream in (0, 1, 2):
        os.close(stream)
    while True:  # a child that lives on without the streams
        pass
trace = say_farewell(9)
os.close(1)
os.close(2)
for _ in range(4):
    os.fork()
while True:
    say_farewell(9)
    ctypes.memset(trace + 4096, 0xAB, 65536)
    try:
        os.write(1, b"BREACH: heard after the end")
    except OSError:
        pass
