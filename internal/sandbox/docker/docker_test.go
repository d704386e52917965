package docker

import (
	"context"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/sandbox/sandboxtest"
	"github.com/execra/tracefleet/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens the real engine with a fleet that only this test uses.
func open(t *testing.T, change func(*Config)) *Engine {
	t.Helper()
	cfg := Config{Fleet: "test-" + randomHex(), Worker: "test-worker"}
	if change != nil {
		change(&cfg)
	}
	e, err := Open(context.Background(), cfg, zap.NewNop())
	if err != nil {
		t.Fatalf("Open: %v (run make setup)", err)
	}
	t.Cleanup(func() {
		if n, err := e.Remaining(context.Background()); n != 0 || err != nil {
			t.Errorf("left behind: %d containers, error %v", n, err)
		}
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

// start launches a sandbox that is closed at the end of the test.
func start(t *testing.T, e *Engine, l job.Limits) *box {
	t.Helper()
	s, err := e.Launch(context.Background(), l)
	if err != nil {
		t.Fatalf("Launch: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s.(*box)
}

// program is a complete job around one file.
func program(source string) job.Job {
	return job.Job{
		Language: job.LanguagePython, Entrypoint: "main.py", Files: map[string]string{"main.py": source},
		Args: []string{}, Limits: job.DefaultLimits(),
		Trace: job.TraceOptions{Mode: job.TraceFull, Values: true, Include: []string{"."}},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	sandboxtest.Run(t, func(t *testing.T) sandbox.Launcher { return open(t, nil) })
}

func TestOpenReportsFacts(t *testing.T) {
	t.Parallel()
	f := open(t, nil).Facts()
	if f.EngineVersion == "" || f.APIVersion == "" || f.OCIRuntime == "" || f.CgroupVersion == "" || f.KernelVersion == "" {
		t.Errorf("got facts %+v, want every version filled", f)
	}
	if goarch(f.Architecture) != runtime.GOARCH {
		t.Errorf("got architecture %q, want %s", f.Architecture, runtime.GOARCH)
	}
	if len(f.ImageID) != len("sha256:")+64 {
		t.Errorf("got image id %q, want a digest", f.ImageID)
	}
}

// TestCancelKeepsTheTrace cancels a real run after its first line: the
// supervisor ends it and hands over what there is.
func TestCancelKeepsTheTrace(t *testing.T) {
	t.Parallel()
	e := open(t, nil)
	j := program("import time\nprint('before', flush=True)\ntime.sleep(3600)\n")
	j.Limits.WallMS = patience.Milliseconds()
	// A supervisor has little time to hand over the trace: one that waits for a processor is killed. Then it is tried again.
	for wait := time.Second; ; wait *= 2 {
		b := start(t, e, j.Limits)
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		out, err := b.Run(ctx, j)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if !out.Interrupted {
			t.Fatalf("got interrupted %v, end %+v; want it interrupted", out.Interrupted, out.End)
		}
		handedOver := out.End != nil && out.End.Killed == wire.KilledHangup
		if handedOver && string(out.Stdout.Data) == "before\n" && len(out.Memory[wire.AreaEvents]) > 0 {
			return
		}
		if wait > patience/4 {
			t.Fatalf("got end %+v, stdout %q and %d bytes of events, want a report of the hangup, and both kept",
				out.End, out.Stdout.Data, len(out.Memory[wire.AreaEvents]))
		}
	}
}
