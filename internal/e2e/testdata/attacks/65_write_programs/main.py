"""Opens the programs and libraries that it and PID 1 run from for writing, also by way of /proc."""
import errno
import os
import sys

# gVisor answers from its own kernel: what can be written there is not the host's.
EMULATED = "gvisor" in os.uname().release.lower() or "Jan 10 15:06:54 PST 2016" in os.uname().version


def probe(name, contained, detail=""):
    print("PROBE", name, "ok" if contained else "ADVISORY" if EMULATED else "BREACH", detail, flush=True)


def open_for_writing(path):
    try:
        descriptor = os.open(path, os.O_WRONLY)
        try:
            if path.endswith("timerslack_ns"):  # anyone may open it
                os.write(descriptor, b"50000")
        finally:
            os.close(descriptor)
    except OSError as error:
        return True, errno.errorcode[error.errno]
    return False, "opened"


targets = {"/proc/self/exe", "/proc/1/exe", "/proc/1/root/supervisor", "/supervisor", os.path.realpath(sys.executable), "/etc/passwd",
           "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/1/oom_score_adj", "/proc/1/mem", "/proc/1/comm", "/proc/1/timerslack_ns",
           "/proc/1/coredump_filter", "/proc/1/clear_refs", "/proc/1/sched", "/proc/1/uid_map", "/sys/fs/cgroup/cgroup.procs",
           "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/release_agent",
           "/sys/fs/cgroup/devices/devices.allow", "/sys/fs/cgroup/memory/cgroup.event_control", "/sys/fs/cgroup/cgroup.subtree_control"}
with open("/proc/self/maps") as maps:
    targets |= {fields[5].strip() for fields in (line.split(maxsplit=5) for line in maps) if len(fields) > 5 and fields[5].startswith("/usr/")}
for path in sorted(targets):
    probe("write:" + path, *open_for_writing(path))
for folder, folders, names in os.walk("/sys/fs/cgroup"):
    for name in names:
        if os.access(os.path.join(folder, name), os.W_OK):
            probe("cgroup:" + folder + "/" + name, open_for_writing(os.path.join(folder, name))[0])
try:
    os.mkdir("/sys/fs/cgroup/memory/inner")
    probe("make_cgroup", False)
except OSError as error:
    probe("make_cgroup", True, errno.errorcode[error.errno])
print("DONE")
