"""Locks files of the shared image: a way for two sandboxes to talk. What is worth knowing, not a breach."""
import errno
import fcntl
import os

def advise(name, clean, detail=""):
    """Worth reading, not a failure."""
    print("PROBE", name, "ok" if clean else "ADVISORY", detail, flush=True)


for path in ("/usr/bin/python3", "/etc/passwd", "/supervisor", "/usr"):
    for name, operation in (("flock", fcntl.flock), ("lockf", fcntl.lockf)):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            operation(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            advise(f"{name}:{path}", False, "locked")
        except OSError as error:
            advise(f"{name}:{path}", True, errno.errorcode[error.errno])
        finally:
            os.close(descriptor)
print("DONE")
