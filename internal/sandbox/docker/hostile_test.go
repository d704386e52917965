package docker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/job"
)

// The tests of this file run on the real engine, with a Python program in the
// place of the supervisor: a PID 1 that is on the program's side.

// pid1Prelude gives a hostile PID 1 what it needs to get a job.
const pid1Prelude = `
import os, struct, sys, time
def frame(kind, payload):
    return kind + struct.pack(">I", len(payload)) + payload
def send(data):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view):]
send(frame(b"R", b'{"v":2,"python":"3.13.0","tracer":"1","cgroup":"v1"}'))
head = sys.stdin.buffer.read(5)
sys.stdin.buffer.read(struct.unpack(">I", head[1:])[0])
`

// startHostile launches a sandbox in which source is PID 1.
func startHostile(t testing.TB, e *Engine, source string) *box {
	t.Helper()
	now := time.Now()
	asked := newSpec(e.cfg, job.DefaultLimits(), e.host, tag{
		Fleet: e.cfg.Fleet, Worker: e.cfg.Worker, Instance: e.instance, Launched: now, Deadline: now.Add(10 * time.Minute),
	})
	asked.Config.Entrypoint = []string{"/usr/bin/python3", "-I", "-c", pid1Prelude + source}
	b, err := e.bring(context.Background(), job.DefaultLimits(), now.Add(time.Minute), asked)
	if err != nil {
		t.Fatalf("launch: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

func TestHostilePID1(t *testing.T) {
	t.Parallel()
	e := open(t, nil)
	for _, c := range []struct {
		name    string
		source  string
		invalid string // "" for the worker's deadline
		stdout  string
	}{
		{"exits without a report", `send(frame(b"O", b"kept")); os._exit(5)`, "exit code 5", "kept"},
		{"dies", `send(frame(b"O", b"kept")); os.abort()`, "without a report", "kept"},
		{"speaks nonsense for ever", "send(frame(b'O', b'kept'))\nwhile True: send(b'?' * 65536)", "unknown frame type", "kept"},
		{"says nothing", `time.sleep(3600)`, "", ""},
		{"closes its stdout", `send(frame(b"O", b"kept")); os.close(1); os._exit(0)`, "without a report", "kept"},
		{"writes to stderr for ever", "while True: os.write(2, b'!' * 65536)", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			j := program("")
			j.Limits.WallMS = 4_000
			out, err := startHostile(t, e, c.source).Run(context.Background(), j)
			if err != nil {
				t.Fatalf("got error %v, want an outcome", err)
			}
			if out.End != nil || string(out.Stdout.Data) != c.stdout || out.EngineOOM {
				t.Errorf("got end %+v, stdout %q, oom %v; want no end, %q, no oom", out.End, out.Stdout.Data, out.EngineOOM, c.stdout)
			}
			if c.invalid == "" && !out.DeadlineHit || !strings.Contains(out.Invalid, c.invalid) {
				t.Errorf("got invalid %q, deadline hit %v; want %q", out.Invalid, out.DeadlineHit, c.invalid)
			}
		})
	}
}

// TestHostilePID1OutOfMemory has PID 1 itself killed for memory.
func TestHostilePID1OutOfMemory(t *testing.T) {
	t.Parallel()
	out, err := startHostile(t, open(t, nil), "hoard = []\nwhile True: hoard.append(b'x' * (1 << 20))").Run(context.Background(), program(""))
	if err != nil || out.End != nil || !out.EngineOOM {
		t.Errorf("got %+v, error %v; want the engine's word for a death for memory", out, err)
	}
}

// floodEnv makes the test binary the worker that TestFloodDoesNotGrowWorker watches.
const floodEnv = "TRACEFLEET_TEST_FLOOD"

const (
	floodBytes = 1 << 30
	// floodMemory bounds the peak of the whole process, with the Go runtime,
	// the engine's client and the test framework in it.
	floodMemory = 100 << 20
)

// TestFloodDoesNotGrowWorker has a PID 1 send 1 GB of well-formed frames to a
// worker process of its own, and looks at that process's peak.
func TestFloodDoesNotGrowWorker(t *testing.T) {
	t.Parallel()
	if os.Getenv(floodEnv) != "" {
		beFlooded(t)
		return
	}
	var out bytes.Buffer
	worker := exec.Command(os.Args[0], "-test.run=^TestFloodDoesNotGrowWorker$", "-test.v")
	worker.Env = append(os.Environ(), floodEnv+"=1")
	worker.Stdout, worker.Stderr = &out, &out
	if err := worker.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "flooded") {
		t.Errorf("got %s, want it flooded", out.String())
	}
}

func beFlooded(t *testing.T) {
	j := program("")
	j.Limits.WallMS = 120_000
	source := fmt.Sprintf(`
chunk = frame(b"O", b"o" * 65536) + frame(b"E", b"e" * 65536)
for _ in range(%d // len(chunk)):
    send(chunk)
send(frame(b"Z", b'{"exited":true,"exit_code":0}'))
`, floodBytes)
	e := open(t, nil)
	out, err := startHostile(t, e, source).Run(context.Background(), j)
	if err != nil || out.End == nil {
		t.Fatalf("got %+v, error %v; want a report", out.End, err)
	}
	for name, s := range map[string]int64{"stdout": out.Stdout.Total, "stderr": out.Stderr.Total} {
		if s < floodBytes/2-(1<<20) {
			t.Errorf("%s: got %d bytes, want half of %d", name, s, floodBytes)
		}
	}
	if got := int64(len(out.Stdout.Data)); got != j.Limits.OutputBytes {
		t.Errorf("got %d bytes kept, want the cap", got)
	}
	if peak := peakMemory(t); peak > floodMemory {
		t.Errorf("got a peak of %d MiB, want at most %d", peak>>20, floodMemory>>20)
	} else {
		t.Logf("flooded: %d bytes, peak %d MiB", out.Stdout.Total+out.Stderr.Total, peak>>20)
	}
}

// peakMemory is the most memory that this process has had at once.
func peakMemory(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kB int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kB); n == 1 {
			return kB << 10
		}
	}
	t.Fatal("no VmHWM in /proc/self/status")
	return 0
}
