"""Looks at its sandbox, writes what it found as JSON to stderr, then floods stdout until it is killed."""
import ctypes
import errno
import json
import os
import resource
import signal
import socket

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
COLUMN = ("x86_64", "aarch64").index(os.uname().machine)
CALLS = {  # number on x86_64 and on aarch64, harmless arguments
    "io_uring_setup": (425, 425, 0, 0), "bpf": (321, 280, -1, 0, 0), "keyctl": (250, 219, 0, 0, 0), "userfaultfd": (323, 282, -1),
    "ptrace": (101, 117, 0x4206, 1, 0, 0), "unshare": (272, 97, 0x10000000), "setns": (308, 268, -1, 0), "mount": (165, 40, 0, 0, 0, 0, 0),
    "pivot_root": (155, 41, 0, 0), "perf_event_open": (298, 241, 0, 0, -1, -1, 0), "process_vm_readv": (310, 270, 1, 0, 0, 0, 0, 0),
    "splice": (275, 76, -1, 0, -1, 0, 0, 0), "init_module": (175, 105, 0, 0, 0), "kexec_load": (246, 104, 0, 0, 0, -1),
    "open_by_handle_at": (304, 265, -1, 0, 0), "personality": (135, 92, 0x40000), "prlimit_of_pid1": (302, 261, 1, 7, 0, 0),
    "clone_newuser": (56, 220, 0x10000011, 0, 0, 0, 0),
}
FAMILIES = {"netlink": 16, "packet": 17, "rxrpc": 33, "alg": 38, "vsock": 40, "vsock_high": 40 | 1 << 32}
CGROUP = {
    "memory": ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    "pids": ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"),
    "cpu": ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"),
}


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def outcome(result):
    return errno.errorcode.get(ctypes.get_errno(), "?") if result < 0 else "allowed"


def call(name):
    numbers = CALLS[name]
    child = os.fork() if name.startswith("clone") else -1
    if child > 0:
        status = os.waitpid(child, 0)[1]
        return errno.errorcode.get(os.WEXITSTATUS(status), "allowed") if os.WIFEXITED(status) else "killed"
    result = libc.syscall(*(ctypes.c_long(n) for n in (numbers[COLUMN], *numbers[2:])))
    if child == 0:
        os._exit(ctypes.get_errno() if result < 0 else 0)
    return outcome(result)


def open_family(family):
    descriptor = libc.syscall(ctypes.c_long((41, 198)[COLUMN]), ctypes.c_long(family), ctypes.c_long(5 if family in (33, 38) else 3), ctypes.c_long(0))
    if descriptor >= 0:
        os.close(descriptor)
    return outcome(descriptor)


def writable(folder):
    path = os.path.join(folder, "canary")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except OSError:
        return False
    os.unlink(path)
    return True


def executable():
    with open("/tmp/run", "w") as file:
        file.write("#!/usr/bin/python3\n")
    os.chmod("/tmp/run", 0o755)
    child = os.fork()
    if child == 0:
        try:
            os.execv("/tmp/run", ["run"])
        except OSError:
            os._exit(9)
    return os.WEXITSTATUS(os.waitpid(child, 0)[1]) != 9


def reach(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        try:
            end.connect((address, 53))
        except OSError:
            return False
    return True


signal.alarm(8)
status = dict(line.split(":\t", 1) for line in read("/proc/self/status").splitlines() if ":\t" in line)
mounts = [line.split() for line in read("/proc/self/mountinfo").splitlines()]
places = ["/", "/dev", "/dev/mqueue", "/etc", "/home", "/opt", "/proc", "/proc/sys", "/root", "/run", "/sys", "/sys/fs/cgroup", "/usr", "/usr/bin", "/usr/lib",
          "/usr/lib/tracefleet", "/var", "/var/tmp", "/job", "/tmp", "/dev/shm"]
found = {
    "gvisor": "gvisor" in os.uname().release.lower() or "Jan 10 15:06:54 PST 2016" in os.uname().version,
    "status": {name: " ".join(status.get(name, "").split()) for name in (
        "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Uid", "Gid", "Groups")},
    "cgroup": {name: next(filter(None, map(read, paths)), "").strip() for name, paths in CGROUP.items()},
    "rlimits": {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name.upper()))[1] for name in ("core", "nofile", "fsize", "nproc")},
    "writable": [place for place in places if writable(place)],
    "root_read_only": any(m[4] == "/" and "ro" in m[5].split(",") for m in mounts),
    "executable": executable(),
    "calls": {name: call(name) for name in CALLS},
    "families": {name: open_family(family) for name, family in FAMILIES.items()},
    "reached": [address for address in ("1.1.1.1", "169.254.169.254", "172.17.0.1") if reach(address)],
    "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()),
    "pid1_open": os.access("/proc/1/mem", os.R_OK) and read("/proc/1/environ") != "",
}
os.write(2, json.dumps(found).encode())
block = b"flood " * 1000
while True:
    os.write(1, block)
