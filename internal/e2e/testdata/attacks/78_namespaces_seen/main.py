"""Reads what the sandbox's own namespaces and mounts tell about the host."""
import os
import socket

def probe(name, contained, detail=""):
    print("PROBE", name, "ok" if contained else "BREACH", detail, flush=True)

def advise(name, clean, detail=""):
    """Worth reading, not a failure."""
    print("PROBE", name, "ok" if clean else "ADVISORY", detail, flush=True)


probe("hostname", socket.gethostname() == "sandbox", socket.gethostname())
with open("/proc/self/cgroup") as file:
    paths = {line.strip().split(":", 2)[2] for line in file}
# gVisor has a cgroup of its own for each container, named by the engine.
EMULATED = "gvisor" in os.uname().release.lower() or "Jan 10 15:06:54 PST 2016" in os.uname().version
(advise if EMULATED else probe)("cgroup", paths <= {"/", "/.."} or not paths, " ".join(sorted(paths))[:200])
with open("/proc/self/mountinfo") as file:
    mounts = file.read()
advise("layers", "/var/lib/docker" not in mounts, "the paths of the image's layers on the host")
for word in ("docker.sock", "containerd.sock", "/home/", "/root/"):
    probe("mount:" + word, word not in mounts)
try:
    with open("/proc/net/dev") as file:
        interfaces = {line.split(":")[0].strip() for line in file.read().splitlines()[2:]}
except OSError:
    interfaces = set()
probe("interfaces", interfaces <= {"lo"}, " ".join(sorted(interfaces)))
processes = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
probe("processes", len(processes) <= 3, str(processes))
with open("/proc/1/cmdline", "rb") as file:
    line = file.read()
probe("pid1", line.rstrip(b"\0") in (b"/supervisor", b""), repr(line))
for name in ("environ", "mem", "fd", "fdinfo", "maps", "stack", "syscall", "root", "cwd", "exe", "auxv"):
    path = "/proc/1/" + name
    try:
        if os.path.isdir(path):
            entries = os.listdir(path)
            seen = f"{len(entries)} entries" if name not in ("root", "cwd") and entries else ""
        elif os.path.islink(path):
            seen = os.readlink(path)
        else:
            with open(path, "rb") as file:
                seen = file.read(64)
    except OSError:
        seen = ""
    advise("pid1_" + name, not seen, repr(seen)[:80])
print("DONE")
