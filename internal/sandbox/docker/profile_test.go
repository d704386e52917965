package docker

import (
	"context"
	"strings"
	"testing"

	"github.com/execra/tracefleet/internal/job"
)

// TestPythonWorksInside runs what the profile and the masked paths could break.
func TestPythonWorksInside(t *testing.T) {
	t.Parallel()
	j := program(ordinaryProgram)
	j.Trace.Mode = job.TraceOff
	b := start(t, open(t, nil), j.Limits)
	out, err := b.Run(context.Background(), j)
	if err != nil {
		t.Fatal(err)
	}
	if out.End == nil || !out.End.Exited || out.End.ExitCode != 0 || !strings.HasSuffix(string(out.Stdout.Data), "all done\n") {
		t.Errorf("got end %+v, stdout:\n%s\nstderr:\n%s", out.End, out.Stdout.Data, out.Stderr.Data)
	}
}

const ordinaryProgram = `
import asyncio, ctypes, multiprocessing, os, resource, select, signal, socket, subprocess, sys, tempfile, threading, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import shared_memory

def double(x):
    return 2 * x

def check(name, got, want):
    assert got == want, f"{name}: got {got!r}, want {want!r}"
    print(name)

async def network():
    server = await asyncio.start_server(lambda r, w: (w.write(b"hi"), w.close()), "127.0.0.1", 0)
    reader, _ = await asyncio.open_connection(*server.sockets[0].getsockname())
    return await reader.read()

async def child():
    process = await asyncio.create_subprocess_exec(sys.executable or "/usr/bin/python3", "-c", "print(3)", stdout=-1)
    return (await process.communicate())[0]

if __name__ == "__main__":
    python = sys.executable or "/usr/bin/python3"
    thread = threading.Thread(target=lambda: None)
    thread.start(); thread.join()
    with ThreadPoolExecutor(4) as pool:
        check("threads", list(pool.map(double, range(4))), [0, 2, 4, 6])
    check("subprocess", subprocess.run([python, "-c", "print(1)"], capture_output=True).stdout, b"1\n")
    check("subprocess in a session", subprocess.run([python, "-c", "print(2)"], capture_output=True, start_new_session=True).stdout, b"2\n")
    check("asyncio over loopback", asyncio.run(network()), b"hi")
    check("asyncio subprocess", asyncio.run(child()), b"3\n")
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            check("multiprocessing by " + method, pool.map(double, [1, 2]), [2, 4])
    queue = multiprocessing.Queue()
    queue.put("x")
    check("queue", queue.get(timeout=10), "x")
    memory = shared_memory.SharedMemory(create=True, size=4096)
    memory.buf[0] = 7
    check("shared memory", memory.buf[0], 7)
    memory.close(); memory.unlink()
    a, b = socket.socketpair()
    a.send(b"x")
    check("socketpair", b.recv(1), b"x")
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0)); udp.close()
    poll = select.epoll(); poll.register(a); poll.close()
    os.mkfifo("/tmp/fifo")
    check("fifo", "fifo" in os.listdir("/tmp"), True)
    with tempfile.TemporaryFile() as file:
        file.write(b"abc"); file.flush(); os.fsync(file.fileno())
        check("temporary file", os.fstat(file.fileno()).st_size, 3)
    os.sync()
    check("nice", os.nice(1) >= 1, True)
    check("own limits", resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)), None)
    check("own processors", os.sched_setaffinity(0, os.sched_getaffinity(0)), None)
    check("alarm", (signal.signal(signal.SIGALRM, lambda *_: None), signal.setitimer(signal.ITIMER_REAL, 0.01), signal.pause())[2], None)
    check("processors", (os.cpu_count() or 0) > 0, True)
    check("load", len(os.getloadavg()), 3)
    check("random", len(os.urandom(8)), 8)
    ctypes.CDLL(None).getpid()
    memfd = os.memfd_create("m")
    check("memfd", os.write(memfd, b"x"), 1)
    check("sendfile", os.sendfile(a.fileno(), os.open("/job/main.py", os.O_RDONLY), 0, 4), 4)
    print("all done")
`

// TestRefusedInside tries, from inside, what argument rules must refuse and a
// plain deny-list would not.
func TestRefusedInside(t *testing.T) {
	t.Parallel()
	j := program(refusedProgram)
	j.Trace.Mode = job.TraceOff
	b := start(t, open(t, nil), j.Limits)
	out, err := b.Run(context.Background(), j)
	if err != nil {
		t.Fatal(err)
	}
	text := string(out.Stdout.Data)
	if strings.Contains(text, "WORKED") || !strings.HasSuffix(text, "all tried\n") {
		t.Errorf("got end %+v, stdout:\n%s\nstderr:\n%s", out.End, text, out.Stderr.Data)
	}
}

const refusedProgram = `
import ctypes, errno, os, platform
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
column = ("x86_64", "aarch64").index(platform.machine())
def call(*arguments):
    result = libc.syscall(*map(ctypes.c_long, arguments))
    return 0 if result >= 0 else ctypes.get_errno()
def refused(name, numbers, *arguments):
    code = call(numbers[column], *arguments)
    print(name, "refused" if code in (errno.EPERM, errno.ENOSYS) else "WORKED " + errno.errorcode.get(code, str(code)))
SOCKET, PRLIMIT, PRIORITY, IOPRIO, SETAFFINITY = (41, 198), (302, 261), (141, 140), (251, 30), (203, 122)
HIGH = 1 << 32
refused("vsock", SOCKET, 40, 1, 0)
refused("netlink", SOCKET, 16, 3, 0)
refused("alg by a high bit", SOCKET, HIGH | 38, 5, 0)
refused("inet by a high bit", SOCKET, HIGH | 2, 1, 0)
refused("sctp", SOCKET, 2, 1, 132)
refused("mptcp", SOCKET, 2, 1, 262)
refused("ping socket", SOCKET, 2, 2, 1)
refused("raw socket", SOCKET, 2, 3, 6)
refused("packet type", SOCKET, 2, 10, 0)
refused("dccp", SOCKET, 2, 6, 33)
refused("limits of pid 1", PRLIMIT, 1, 0, 0, 0)
refused("limits by own pid", PRLIMIT, os.getpid(), 0, 0, 0)
refused("limits by a high bit", PRLIMIT, HIGH, 0, 0, 0)
refused("priority of pid 1", PRIORITY, 0, 1, 19)
refused("priority of the group", PRIORITY, 1, 0, 19)
refused("priority of the user", PRIORITY, 2, 0, 19)
refused("io priority of the user", IOPRIO, 3, 0, 3 << 13)
refused("io priority of pid 1", IOPRIO, 1, 1, 3 << 13)
refused("processors of pid 1", SETAFFINITY, 1, 8, 0)
refused("personality", (135, 92), 0x0040000)
refused("device", (259, 33), -100, 0, 0o20600, 0x103)
refused("clone user", (56, 220), 0x10000011, 0, 0, 0, 0)
refused("clone3", (435, 435), 0, 0)
print("all tried")
`
