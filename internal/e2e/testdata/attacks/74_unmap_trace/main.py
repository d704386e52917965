"""Takes the memory that carries the trace away from under the tracer in every way that there is, each in a child."""
import ctypes
import os
import signal


def shared_ranges():
    with open("/proc/self/maps") as file:
        for line in file:
            fields = line.split(maxsplit=5)
            if fields[1].startswith("rw") and fields[1][3] == "s":
                start, end = (int(part, 16) for part in fields[0].split("-"))
                yield start, end - start


libc = ctypes.CDLL(None, use_errno=True)
libc.mremap.restype = ctypes.c_void_p
P, L = ctypes.c_void_p, ctypes.c_size_t


def more():
    total = 0
    for n in range(50):
        total += n
    return total


ways = {
    "discard": lambda start, size: libc.madvise(P(start), L(size), 4),
    "punch": lambda start, size: libc.madvise(P(start), L(size), 9),
    "lock_out": lambda start, size: libc.mprotect(P(start), L(size), 0),
    "read_only": lambda start, size: libc.mprotect(P(start), L(size), 1),
    "shrink": lambda start, size: libc.mremap(P(start), L(size), L(4096), 0),
    "unmap": lambda start, size: libc.munmap(P(start), L(size)),
}
print("START", flush=True)
for name, way in ways.items():
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        for start, size in list(shared_ranges()):
            way(start, size)
        more()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    print("PROBE", name, "ok", "killed" if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), flush=True)
print("PROBE after ok", more(), flush=True)
for start, size in list(shared_ranges()):
    ways["unmap"](start, size)
print("DONE", flush=True)
more()
os._exit(3)
