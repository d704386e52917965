//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/wire"
)

func TestEndings(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		code     string
		exited   bool
		exitCode int
		signal   int
	}{
		"end of the file":     {"print('hi')", true, 0, 0},
		"exit 3":              {"import sys; sys.exit(3)", true, 3, 0},
		"exit 137":            {"import os; os._exit(137)", true, 137, 0},
		"exit -1":             {"import sys; sys.exit(-1)", true, 255, 0},
		"uncaught exception":  {"1/0", true, 1, 0},
		"segmentation fault":  {"import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", false, 0, 11},
		"kills itself":        {"import os, signal; os.kill(os.getpid(), signal.SIGKILL)", false, 0, 9},
		"abort":               {"import os; os.abort()", false, 0, 6},
		"terminates itself":   {"import os, signal; os.kill(os.getpid(), signal.SIGTERM)", false, 0, 15},
		"real-time signal":    {"import os; os.kill(os.getpid(), 34)", false, 0, 34},
		"suspend key ignored": {"import os, signal\nassert signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL\nos._exit(4)", true, 4, 0},
		"closes descriptors":  {"import os; os.closerange(0, 65536); os._exit(11)", true, 11, 0},
		"kills the group":     {"import os, signal; os.killpg(0, signal.SIGKILL)", false, 0, 9},
		"kills everyone":      {"import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nif os.fork() == 0: signal.pause()\nos.kill(-1, signal.SIGTERM)\nos._exit(8)", true, 8, 0},
		"becomes another":     {"import os; os.execv('/usr/bin/python3', ['python3', '-c', 'import os; os._exit(21)'])", true, 21, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runCode(t, boxOptions{}, aJob(tt.code)).end
			if got.Exited != tt.exited || got.ExitCode != tt.exitCode || got.Signal != tt.signal || got.Killed != "" {
				t.Errorf("got exited %v, code %d, signal %d, killed %q, want %v, %d, %d and not killed",
					got.Exited, got.ExitCode, got.Signal, got.Killed, tt.exited, tt.exitCode, tt.signal)
			}
			if got.OOMKills != 0 || got.ForksRefused != 0 {
				t.Errorf("got %d OOM kills and %d refused forks, want none", got.OOMKills, got.ForksRefused)
			}
		})
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	b := startBox(t, boxOptions{})
	if b.ready.Version != wire.Version || !strings.HasPrefix(b.ready.Python, "3.") || b.ready.Tracer == "" || b.ready.Cgroup == "" {
		t.Errorf("READY is incomplete: %+v", b.ready)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	out := runCode(t, boxOptions{}, aJob(`
import time
end = time.process_time() + 0.3
while time.process_time() < end: pass
data = bytearray(64 << 20)
time.sleep(0.3)
`))
	got := out.end
	if got.WallMS < 600 || got.WallMS > out.took.Milliseconds() {
		t.Errorf("wall: got %d ms, want 600 and a little, of the %v that it took to be answered", got.WallMS, out.took)
	}
	if got.CPUMS < 290 || got.CPUMS > 5_000 {
		t.Errorf("cpu: got %d ms, want 300 and a little", got.CPUMS)
	}
	if got.MaxMemoryBytes < 64<<20 || got.MaxMemoryBytes > 160<<20 {
		t.Errorf("memory: got %d, want 64 MiB and a little", got.MaxMemoryBytes)
	}
	if got.MaxProcesses != 1 {
		t.Errorf("processes: got %d, want 1", got.MaxProcesses)
	}
}

func TestProcessPeak(t *testing.T) {
	t.Parallel()
	got := runCode(t, boxOptions{}, aJob(`
import os, time
children = [os.fork() for _ in range(1)]
for _ in range(30):
    child = os.fork() if children[0] else 0
    if child == 0:
        time.sleep(600); os._exit(0)
    children.append(child)
time.sleep(2)
`)).end
	if got.MaxProcesses < 30 || got.MaxProcesses > 34 {
		t.Errorf("got %d processes at most, want 32", got.MaxProcesses)
	}
}

func TestWallLimit(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"sleeps":                           "print('START', flush=True)\nimport time; time.sleep(3600)",
		"spins":                            "print('START', flush=True)\nwhile True: pass",
		"deaf":                             "import signal\nfor n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n  except (OSError, ValueError): pass\nprint('START', flush=True)\nwhile True: signal.pause()",
		"stops group":                      "print('START', flush=True)\nimport os, signal; os.kill(0, signal.SIGSTOP)",
		"waits for input that never comes": "print('START', flush=True)\nimport os; r, w = os.pipe(); os.read(r, 1)",
	}
	for name, code := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info := aJob(code)
			info.WallMS = 4000 // in which a busy machine starts a program
			got := runCode(t, boxOptions{}, info)
			if got.end.Killed != "wall" || got.end.Exited || got.end.Signal != 9 {
				t.Errorf("got %+v, want killed for wall", *got.end)
			}
			if got.end.WallMS < 4000 {
				t.Errorf("wall: got %d ms, want 4000 and a little", got.end.WallMS)
			}
			if string(got.stdout) != "START\n" {
				t.Errorf("stdout: got %q, want what was said before the end", got.stdout)
			}
		})
	}
}

// TestHangup has the worker close its end while the program runs, as it does
// to cancel a job and as the engine does for it when it dies.
func TestHangup(t *testing.T) {
	t.Parallel()
	b := startBox(t, boxOptions{})
	payload, err := json.Marshal(aJob("print('START', flush=True)\nimport time; time.sleep(3600)"))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := wire.WriteFrame(b.stdin, wire.Job, payload); err != nil {
		t.Fatal(err)
	}
	first, err := b.dec.Next()
	if err != nil || first.Type != wire.Stdout {
		t.Fatalf("got a %q frame, %v, want the program's first line", byte(first.Type), err)
	}
	if err := b.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	got := b.collect(start)
	if got.end == nil || got.end.Killed != wire.KilledHangup || got.end.Signal != 9 {
		t.Fatalf("got %+v, want killed for the hangup", got.end)
	}
	if len(got.trace[wire.AreaEvents]) == 0 {
		t.Error("got no events, want the trace")
	}
	if err := b.wait(); err != nil {
		t.Errorf("container: %v", err)
	}
}

func TestCPULimitCountsAllProcesses(t *testing.T) {
	t.Parallel()
	info := aJob("import os\nfor _ in range(3):\n  if os.fork() == 0: break\nwhile True: pass")
	info.CPUMS = 3000
	got := runCode(t, boxOptions{}, info).end
	// Four processes that are counted each for itself would use 12 s.
	if got.Killed != "cpu" || got.CPUMS < 3000 || got.CPUMS > 10_000 {
		t.Errorf("got killed %q after %d ms of CPU, want cpu after 3000 and a little", got.Killed, got.CPUMS)
	}
}

func TestCPULimitCountsTheDead(t *testing.T) {
	t.Parallel()
	info := aJob(`
import os, time
while True:
    child = os.fork()
    if child == 0:
        end = time.process_time() + 0.05
        while time.process_time() < end: pass
        os._exit(0)
    os.waitpid(child, 0)
`)
	info.CPUMS = 500
	got := runCode(t, boxOptions{}, info).end
	if got.Killed != "cpu" || got.CPUMS < 500 {
		t.Errorf("got killed %q after %d ms of CPU, want cpu after 500 and a little", got.Killed, got.CPUMS)
	}
}

func TestOutputCaps(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		code           string
		killed         string
		stdout, stderr int64 // bytes kept
	}{
		"stdout at the cap":        {"import os\nos.write(1, b'x' * 10000)", "", 10_000, 0},
		"stdout one over":          {"import os, time\nos.write(1, b'x' * 10001)\ntime.sleep(3600)", "stdout", 10_000, 0},
		"stdout over, then exit":   {"import os\nos.write(1, b'x' * 10001)\nos._exit(0)", "stdout", 10_000, 0},
		"stderr at the cap":        {"import os\nos.write(2, b'x' * 10000)", "", 0, 10_000},
		"stderr one over":          {"import os, time\nos.write(2, b'x' * 10001)\ntime.sleep(3600)", "stderr", 0, 10_000},
		"both at the cap":          {"import os\nfor _ in range(1000):\n  os.write(1, b'x' * 10)\n  os.write(2, b'y' * 10)", "", 10_000, 10_000},
		"stdout without end":       {"import os\nwhile True: os.write(1, b'x' * 65536)", "stdout", 10_000, 0},
		"stderr of a grandchild":   {"import os, time\nif os.fork() == 0:\n  while True: os.write(2, b'x' * 65536)\ntime.sleep(3600)", "stderr", 0, 10_000},
		"bytes that are not UTF-8": {"import os\nos.write(1, bytes(range(256)))", "", 256, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info := aJob(tt.code)
			info.OutputBytes = 10_000
			got := runCode(t, boxOptions{}, info)
			if got.end.Killed != tt.killed {
				t.Errorf("killed: got %q, want %q", got.end.Killed, tt.killed)
			}
			if n := int64(len(got.stdout)); n != tt.stdout {
				t.Errorf("stdout: got %d bytes, want %d", n, tt.stdout)
			}
			if n := int64(len(got.stderr)); n != tt.stderr {
				t.Errorf("stderr: got %d bytes, want %d", n, tt.stderr)
			}
			if total := got.end.StdoutBytes; (tt.killed == "stdout") != (total > info.OutputBytes) || total < tt.stdout {
				t.Errorf("stdout_bytes: got %d with %d kept", total, tt.stdout)
			}
			if total := got.end.StderrBytes; (tt.killed == "stderr") != (total > info.OutputBytes) || total < tt.stderr {
				t.Errorf("stderr_bytes: got %d with %d kept", total, tt.stderr)
			}
		})
	}
}

func TestSmallWritesShareFrames(t *testing.T) {
	t.Parallel()
	got := runCode(t, boxOptions{}, aJob("import os\nfor _ in range(20000): os.write(1, b'x')"))
	if len(got.stdout) != 20_000 || got.frames > 2_000 {
		t.Errorf("20000 writes gave %d bytes in %d frames, want all in far fewer", len(got.stdout), got.frames)
	}
}

func TestOrphanDoesNotDelayTheAnswer(t *testing.T) {
	t.Parallel()
	got := runCode(t, boxOptions{}, aJob("import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0: time.sleep(3600)\n  time.sleep(3600)\nprint('DONE')"))
	if !got.end.Exited || got.end.ExitCode != 0 || string(got.stdout) != "DONE\n" {
		t.Errorf("got %+v and %q, want exit 0 and DONE at once", *got.end, got.stdout)
	}
}

func TestForkBombs(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"sleepers": "import os, time\nfor _ in range(500):\n  try:\n    if os.fork() == 0: time.sleep(600); os._exit(0)\n  except OSError: break\nprint('DONE')",
		"zombies":  "import os\nfor _ in range(500):\n  try:\n    if os.fork() == 0: os._exit(0)\n  except OSError: break\nprint('DONE')",
		"threads":  "import threading, time\ntry:\n  for _ in range(500): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\nexcept RuntimeError: pass\nprint('DONE', flush=True)\nimport os; os._exit(0)",
	}
	for name, code := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runCode(t, boxOptions{pids: "48"}, aJob(code))
			if !got.end.Exited || got.end.ExitCode != 0 || string(got.stdout) != "DONE\n" {
				t.Errorf("got %+v, stdout %q, stderr %q, want exit 0 and DONE", *got.end, got.stdout, tail(got.stderr))
			}
			if got.end.ForksRefused < 1 || got.end.MaxProcesses < 20 || got.end.MaxProcesses > 48 {
				t.Errorf("got %d forks refused, %d processes at most, want some refused at the limit", got.end.ForksRefused, got.end.MaxProcesses)
			}
		})
	}
}

// TestProcessLimitIsExact gives a sandbox the tasks that wire.SupervisorTasks
// says: the program and its children get exactly the job's number.
func TestProcessLimitIsExact(t *testing.T) {
	t.Parallel()
	for _, processes := range []int64{1, 2, 24} {
		t.Run(strconv.FormatInt(processes, 10), func(t *testing.T) {
			t.Parallel()
			info := aJob("import os, time\nn = 0\ntry:\n  while n < 500:\n    if os.fork() == 0: time.sleep(600); os._exit(0)\n    n += 1\nexcept OSError: pass\nprint(n)")
			info.Processes = processes
			got := runCode(t, boxOptions{pids: strconv.FormatInt(wire.SupervisorTasks+processes, 10)}, info)
			if want := strconv.FormatInt(processes-1, 10) + "\n"; string(got.stdout) != want {
				t.Errorf("got %q children, stderr %q, want %q", got.stdout, tail(got.stderr), want)
			}
			if got.end.MaxProcesses != processes || got.end.ForksRefused != 1 {
				t.Errorf("got %d processes and %d refused forks, want %d and 1", got.end.MaxProcesses, got.end.ForksRefused, processes)
			}
		})
	}
}

// TestBombWithFlood has every process of a bomb write without end while no
// process can be made any more: the supervisor must not need one.
func TestBombWithFlood(t *testing.T) {
	t.Parallel()
	info := aJob("import os\nfor _ in range(100):\n  try:\n    if os.fork() == 0: break\n  except OSError: break\nwhile True:\n  try: os.fork()\n  except OSError: pass\n  os.write(1, b'x' * 100); os.write(2, b'y' * 100)")
	info.OutputBytes, info.WallMS = 2_000_000, 20_000
	got := runCode(t, boxOptions{pids: "40"}, info)
	if got.end.Killed == "" || got.end.Signal != 9 || got.end.ForksRefused < 1 {
		t.Errorf("got %+v, want killed for a limit, with forks refused", *got.end)
	}
}

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	t.Run("the program", func(t *testing.T) {
		t.Parallel()
		got := runCode(t, boxOptions{memory: "64m"}, aJob("print('START', flush=True)\nkeep = []\nwhile True: keep.append(bytearray(1 << 20))"))
		if got.end.OOMKills < 1 || got.end.Signal != 9 || got.end.Killed != "" {
			t.Errorf("got %+v, want killed by the kernel", *got.end)
		}
		if string(got.stdout) != "START\n" {
			t.Errorf("stdout: got %q, want what was said before", got.stdout)
		}
		if got.end.MaxMemoryBytes < 60<<20 || got.end.MaxMemoryBytes > 64<<20 {
			t.Errorf("memory: got %d, want the limit", got.end.MaxMemoryBytes)
		}
	})
	t.Run("a child", func(t *testing.T) {
		t.Parallel()
		got := runCode(t, boxOptions{memory: "64m"}, aJob("import os\nchild = os.fork()\nif child == 0:\n  keep = []\n  while True: keep.append(bytearray(1 << 20))\n_, status = os.waitpid(child, 0)\nprint(os.WTERMSIG(status))"))
		if got.end.OOMKills != 1 || !got.end.Exited || got.end.ExitCode != 0 || string(got.stdout) != "9\n" {
			t.Errorf("got %+v, stdout %q, want exit 0 with one OOM kill", *got.end, got.stdout)
		}
	})
	t.Run("processes that shelter from it", func(t *testing.T) {
		t.Parallel()
		got := runCode(t, boxOptions{memory: "64m"}, aJob(`
import os
for n in range(500, -1, -1):
    try: open('/proc/self/oom_score_adj', 'w').write(str(n))
    except OSError: break
for _ in range(20): os.fork() or os.setsid()
keep = []
while True: keep.append(bytearray(1 << 16))
`))
		if got.end.OOMKills < 1 {
			t.Errorf("got %+v, want killed by the kernel", *got.end)
		}
	})
	t.Run("smallest sandbox", func(t *testing.T) {
		t.Parallel()
		got := runCode(t, boxOptions{memory: "32m"}, aJob("keep = []\nwhile True: keep.append(bytearray(1 << 18))"))
		if got.end.OOMKills < 1 || got.end.Signal != 9 {
			t.Errorf("got %+v, want killed by the kernel", *got.end)
		}
	})
}

func TestStdin(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	tests := map[string]struct {
		stdin []byte
		code  string
		want  string
	}{
		"none":           {nil, "import sys; print(repr(sys.stdin.read()))", "''\n"},
		"lines":          {[]byte("a\nb\n"), "print(input() + input())", "ab\n"},
		"a megabyte":     {big, "import sys; print(len(sys.stdin.buffer.read()))", "1048576\n"},
		"not read":       {big, "print('no')", "no\n"},
		"partly read":    {big, "import os; print(len(os.read(0, 100)))", "100\n"},
		"closed at once": {big, "import os; os.close(0); print('closed')", "closed\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info := aJob(tt.code)
			info.Stdin = tt.stdin
			got := runCode(t, boxOptions{}, info)
			if string(got.stdout) != tt.want || got.end.ExitCode != 0 {
				t.Errorf("got %q, exit %d, stderr %q, want %q", got.stdout, got.end.ExitCode, tail(got.stderr), tt.want)
			}
		})
	}
}

// TestLargestJobInSmallestSandbox checks that reading the job leaves the memory to the program.
func TestLargestJobInSmallestSandbox(t *testing.T) {
	t.Parallel()
	info := aJob("import sys\nprint(len(sys.stdin.buffer.read()))\n")
	info.Stdin = make([]byte, 1<<20)
	info.Files["data.txt"] = make([]byte, 1<<20)
	info.MemoryBytes = 32 << 20
	got := runCode(t, boxOptions{memory: "32m"}, info)
	if string(got.stdout) != "1048576\n" || got.end.OOMKills != 0 {
		t.Errorf("got %q, %+v, stderr %q", got.stdout, *got.end, tail(got.stderr))
	}
}

func TestFilesAndArguments(t *testing.T) {
	t.Parallel()
	info := aJob("import sys, os\nfrom pkg.deep import name\nprint(sys.argv, name, os.getcwd(), sorted(os.listdir()))")
	info.Files["pkg/__init__.py"] = nil
	info.Files["pkg/deep.py"] = []byte("name = 'deep'\n")
	info.Args = []string{"-c", "two words", "<&>", "é"}
	got := runCode(t, boxOptions{}, info)
	if want := "['main.py', '-c', 'two words', '<&>', 'é'] deep /job ['main.py', 'pkg']\n"; string(got.stdout) != want {
		t.Errorf("got %q, stderr %q, want %q", got.stdout, tail(got.stderr), want)
	}
}

func TestDescriptorsOfTheProgram(t *testing.T) {
	t.Parallel()
	got := runCode(t, boxOptions{}, aJob("import os\nprint([fd for fd in range(64) if os.path.exists(f'/proc/self/fd/{fd}')])\nprint(dict(os.environ))"))
	if want := "[0, 1, 2]\n{'PATH': '/usr/bin:/bin', 'HOME': '/tmp', 'LANG': 'C.UTF-8'}\n"; string(got.stdout) != want {
		t.Errorf("got %q, want %q", got.stdout, want)
	}
}

// TestTraceMemory checks that the memory arrives whole and that the program
// cannot resize it through the doors that /proc leaves open.
func TestTraceMemory(t *testing.T) {
	t.Parallel()
	info := aJob(`
import ctypes, os, struct
def ranges():
    for line in open('/proc/self/maps'):
        f = line.split(maxsplit=5)
        if f[1].startswith('rw') and f[1][3] == 's' and 'memfd:trace' in line:
            start, end = (int(x, 16) for x in f[0].split('-'))
            yield start, end
start, end = next(ranges())
for size in (0, 1, 1 << 40):
    try:
        os.truncate(f'/proc/self/map_files/{start:x}-{end:x}', size)
        print('truncated')
    except OSError: pass
events, capacity = 4096, 16 << 20
ctypes.memset(start + events, 0xab, capacity)
# On one line: the tracer would write its own counts at the next.
print(end - start, flush=True); ctypes.memmove(start, b'TFTRACE1' + struct.pack('<4Q', 1 << 60, 0, 0, 0), 40); os._exit(5)
`)
	info.TraceBytes = 16 << 20
	got := runCode(t, boxOptions{}, info)
	_, size := wire.MemoryLayout(info.TraceBytes)
	if got.end.ExitCode != 5 || strings.Contains(string(got.stdout), "truncated") {
		t.Fatalf("got exit %d, stdout %q, stderr %q (mapped size should be %d)", got.end.ExitCode, got.stdout, tail(got.stderr), size)
	}
	// The tracer may have written to the front once more before the exit.
	events := got.trace[wire.AreaEvents]
	if n := len(events); n != 16<<20 || bytes.Count(events[n/2:], []byte{0xab}) != n/2 {
		t.Errorf("got %d bytes of events, want 16 MiB, the second half 0xab", n)
	}
}

func TestAttacksOnTheSupervisor(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"signals":       "import os\nfor n in range(1, 65):\n  try: os.kill(1, n)\n  except OSError: pass\nos._exit(7)",
		"signal floods": "import os, signal, time\nend = time.monotonic() + 1\nwhile time.monotonic() < end:\n  for _ in range(500):\n    os.kill(1, signal.SIGCHLD); os.kill(1, signal.SIGURG); os.kill(1, signal.SIGSEGV)\nos._exit(7)",
		"memory":        "import os\ntry: open('/proc/1/mem', 'rb')\nexcept PermissionError: os._exit(7)",
		"descriptors":   "import os\ntry: os.listdir('/proc/1/fd')\nexcept PermissionError: os._exit(7)",
		"environment":   "import os\ntry: open('/proc/1/environ').read()\nexcept PermissionError: os._exit(7)",
		"oom score":     "import os\ntry: os.open('/proc/1/oom_score_adj', os.O_WRONLY)\nexcept PermissionError: os._exit(7)",
		"fake frames":   "import os\nfor fd in (0, 1, 2):\n  try: os.write(fd, b'Z\\0\\0\\0\\2{}')\n  except OSError: pass\nos._exit(7)",
	}
	for name, code := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runCode(t, boxOptions{}, aJob(code))
			if !got.end.Exited || got.end.ExitCode != 7 {
				t.Errorf("got %+v, stderr %q, want exit 7", *got.end, tail(got.stderr))
			}
		})
	}
}

func TestNoJob(t *testing.T) {
	t.Parallel()
	b := startBox(t, boxOptions{})
	if err := b.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if got := b.collect(time.Now()); got.frames != 0 {
		t.Errorf("got %+v, want silence", got)
	}
	if err := b.wait(); err != nil {
		t.Errorf("got %v, want exit 0", err)
	}
}

func TestNonsenseJobs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind    wire.Type
		payload string
		want    string
	}{
		"not JSON":         {wire.Job, "hello", "read the job"},
		"another frame":    {wire.Stdout, "{}", "frame came instead"},
		"no entrypoint":    {wire.Job, `{"files":{}}`, "no file"},
		"escaping path":    {wire.Job, `{"entrypoint":"../x","files":{"../x":""}}`, "bad path"},
		"limit left out":   {wire.Job, `{"entrypoint":"a","files":{"a":""},"wall_ms":1}`, "cpu_ms"},
		"file is a folder": {wire.Job, `{"entrypoint":"a","files":{"a":"","a/b":""},"wall_ms":1,"cpu_ms":1,"open_files":9,"processes":1,"trace_bytes":1}`, "write the job's files"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := startBox(t, boxOptions{}).runFrame(tt.kind, []byte(tt.payload))
			if got.end != nil || !strings.Contains(got.fail, tt.want) {
				t.Errorf("got END %v, FAIL %q, want FAIL with %q", got.end, got.fail, tt.want)
			}
		})
	}
}

// TestTracerThatCannotStartTheProgram orders a limit that the container does not
// allow. The program has not run, so the exit status must not be taken for its own.
func TestTracerThatCannotStartTheProgram(t *testing.T) {
	t.Parallel()
	info := aJob("print('never')")
	info.OpenFiles = 1000
	got := startBox(t, boxOptions{extra: []string{"--ulimit", "nofile=500:500"}}).run(info)
	if got.end != nil || !strings.Contains(got.fail, "did not start the program: exit status 70") || !strings.Contains(got.fail, "tracer: cannot start") {
		t.Errorf("got end %+v, FAIL %q, want FAIL with the tracer's words", got.end, got.fail)
	}
}

// TestExitLikeATracer leaves with the status that the tracer has for its own failure.
func TestExitLikeATracer(t *testing.T) {
	t.Parallel()
	for name, entrypoint := range map[string]string{"main": "main.py", "another entrypoint": "sub/start.py"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info := aJob("")
			info.Entrypoint = entrypoint
			info.Files[entrypoint] = []byte("import os; os._exit(70)")
			got := runCode(t, boxOptions{}, info)
			if !got.end.Exited || got.end.ExitCode != 70 {
				t.Errorf("got %+v, want exit 70", *got.end)
			}
		})
	}
}

func TestInterpreterThatCannotStart(t *testing.T) {
	t.Parallel()
	// A folder over the library hides it.
	b := launch(t, boxOptions{extra: []string{"--tmpfs", "/usr/lib/tracefleet"}})
	if got := b.collect(time.Now()); got.end != nil || !strings.Contains(got.fail, "did not start") {
		t.Errorf("got END %v, FAIL %q, want FAIL because the interpreter did not start", got.end, got.fail)
	}
}

// TestAddedPackages builds the image once more with a Debian package that
// brings extension modules and shared libraries of its own.
func TestAddedPackages(t *testing.T) {
	t.Parallel()
	const tag = "tracefleet/sandbox-test:numpy"
	build := exec.Command("../../deploy/setup/image.sh")
	build.Env = append(os.Environ(), "IMAGE="+tag, "PYTHON_PACKAGES=python3-numpy")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	got := runCode(t, boxOptions{image: tag, memory: "512m"}, aJob("import numpy\nprint(round(float(numpy.linalg.det(numpy.eye(3) * 2))))"))
	if want := "8\n"; string(got.stdout) != want {
		t.Errorf("got %q, stderr %q, want %q", got.stdout, tail(got.stderr), want)
	}
}

// TestWithoutCgroup hides the counters, as some runtimes do: limits still hold
// by what /proc says, and what cannot be known is said to be unknown.
func TestWithoutCgroup(t *testing.T) {
	t.Parallel()
	b := startBox(t, boxOptions{extra: []string{"--tmpfs", "/sys/fs/cgroup:ro"}})
	info := aJob("import os\nfor _ in range(2):\n  if os.fork() == 0: break\nwhile True: pass")
	info.CPUMS = 3000
	got := b.run(info).end
	if b.ready.Cgroup != "" || got.OOMKills != -1 || got.ForksRefused != -1 {
		t.Errorf("cgroup %q, %d OOM kills, %d refused forks: want them unknown", b.ready.Cgroup, got.OOMKills, got.ForksRefused)
	}
	// Three processes that are counted each for itself would use 9 s.
	if got.Killed != "cpu" || got.CPUMS < 2990 || got.CPUMS > 8000 || got.MaxProcesses != 3 || got.MaxMemoryBytes < 4<<20 {
		t.Errorf("got %+v, want killed for cpu after 3000 ms with 3 processes", *got)
	}
}
