"""Takes what the kernel counts by user, not by sandbox: watches, pipe pages, timers, queued signals, locked memory, sockets.

Descriptors bound most of it. All of it comes back when the sandbox goes.
"""
import ctypes
import errno
import fcntl
import mmap
import os
import signal
import socket

def probe(name, contained, detail=""):
    print("PROBE", name, "ok" if contained else "BREACH", detail, flush=True)


libc = ctypes.CDLL(None, use_errno=True)


def many(name, most, make):
    """Make things until refused; they are kept until all are counted."""
    kept, reason = [], "no refusal"
    try:
        while len(kept) < 20_000:
            kept.append(make(len(kept)))
    except OSError as error:
        reason = errno.errorcode.get(error.errno, str(error))
    probe(name, len(kept) <= most, f"{len(kept)}, then {reason}")
    return kept


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


print("START", flush=True)
for descriptor in many("watchers", 64, lambda n: check(libc.inotify_init1(0))):
    os.close(descriptor)
watcher = libc.inotify_init1(0)
if watcher >= 0:
    many("watches", 20_000, lambda n: check(libc.inotify_add_watch(watcher, b"/usr/lib", 0x100)) and None)
    os.close(watcher)
pipes = many("pipes", 64, lambda n: os.pipe())
grown = 0
for near, far in pipes:
    try:
        grown += fcntl.fcntl(near, 1031, 1 << 20)  # F_SETPIPE_SZ
    except OSError:
        pass
probe("pipe_pages", grown <= 64 << 20, f"{grown >> 10} KiB")
for pair in pipes:
    for end in pair:
        os.close(end)
ends = many("socket_pairs", 64, lambda n: socket.socketpair())
filled = 0
for near, far in ends:
    near.setblocking(False)
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
    try:
        while filled < 512 << 20:
            filled += near.send(b"x" * 65536)
    except OSError:
        pass
probe("socket_buffers", filled < 512 << 20, f"{filled >> 10} KiB")
for pair in ends:
    for end in pair:
        end.close()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})


def queue_signal(n):
    class Value(ctypes.Structure):
        _fields_ = [("pointer", ctypes.c_void_p)]

    check(libc.sigqueue(os.getpid(), int(signal.SIGRTMIN), Value(n)))


many("queued_signals", 200_000, queue_signal)
timer = ctypes.c_void_p()
many("timers", 200_000, lambda n: check(libc.timer_create(1, None, ctypes.byref(timer))))
area = mmap.mmap(-1, 64 << 20)
locked = libc.mlock(ctypes.addressof(ctypes.c_char.from_buffer(area)), ctypes.c_size_t(64 << 20))
probe("locked_memory", locked != 0 or "gvisor" in os.uname().release.lower() or "PST 2016" in os.uname().version, "refused" if locked else "64 MiB locked")
print("DONE", flush=True)
os._exit(0)
