"""Runs code from a memory file, which no noexec mount stops: it must gain nothing by it."""
import os
import sys

def probe(name, contained, detail=""):
    print("PROBE", name, "ok" if contained else "BREACH", detail, flush=True)

def advise(name, clean, detail=""):
    """Worth reading, not a failure."""
    print("PROBE", name, "ok" if clean else "ADVISORY", detail, flush=True)


print("START", flush=True)
with open(os.path.realpath(sys.executable), "rb") as file:
    image = file.read()
memory = os.memfd_create("program", 0)
written = 0
try:
    while written < len(image):
        written += os.write(memory, image[written:written + (1 << 20)])
    child = os.fork()
    if child == 0:
        try:
            os.execve(f"/proc/self/fd/{memory}", ["python3", "-I", "-S", "-c", """
for line in open("/proc/self/status"):
    if line.startswith(("CapEff", "CapBnd", "NoNewPrivs", "Seccomp:", "Uid")):
        print("SELF", *line.split(), flush=True)
"""], {})
        except OSError as error:
            print("SELF refused", error.strerror, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    advise("memory_file", False, "written and perhaps run")
except OSError as error:
    advise("memory_file", True, error.strerror)
print("DONE")
