"""Fills folders with links, long names and attributes, none of which count as file size."""
import errno
import os

# gVisor has no limit on inodes: the memory limit bounds them there.
EMULATED = "gvisor" in os.uname().release.lower() or "Jan 10 15:06:54 PST 2016" in os.uname().version


def probe(name, contained, detail=""):
    print("PROBE", name, "ok" if contained else "BREACH", detail, flush=True)


def many(name, most, make):
    made, reason = 0, "no refusal"
    try:
        while made < 20_000:
            make(made)
            made += 1
    except OSError as error:
        reason = errno.errorcode[error.errno]
    probe(name, made <= most or EMULATED, f"{made}, then {reason}")


print("START", flush=True)
os.mkdir("/tmp/links")
os.mkdir("/job/names")
many("symlinks", 4096, lambda n: os.symlink("x" * 4000, f"/tmp/links/{n}"))
many("long_names", 4096, lambda n: os.close(os.open(f"/job/names/{n:0>255}", os.O_CREAT | os.O_WRONLY)))
with open("/dev/shm/file", "w"):
    pass
many("hard_links", 19_999, lambda n: os.link("/dev/shm/file", f"/dev/shm/{n}"))
many("attributes", 19_999, lambda n: os.setxattr("/dev/shm/file", f"user.{n}", b"x" * 1000))
folder = "/dev/shm"
try:
    for depth in range(5000):
        os.mkdir("d")
        os.chdir("d")
except OSError:
    pass
os.chdir("/")
probe("deep_folders", True)
print("DONE")
