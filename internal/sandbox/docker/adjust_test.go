package docker

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
)

// TestAdjust gives a waiting sandbox other limits and runs what shows that they hold.
func TestAdjust(t *testing.T) {
	t.Parallel()
	const hoard = "kept = []\nwhile len(kept) < 200:\n    kept.append(bytearray(1 << 20))\nprint('not killed')\n"
	const forks = "import threading\nwaiting = threading.Event()\nn = 1\ntry:\n    while n < 40:\n        threading.Thread(target=waiting.wait, daemon=True).start()\n        n += 1\nexcept RuntimeError:\n    pass\nprint(n)\nimport sys, os\nsys.stdout.flush()\nos._exit(0)\n"
	tests := map[string]struct {
		change  func(*job.Limits)
		source  string
		correct func(o sandbox.Outcome) bool
	}{
		"less memory": {func(l *job.Limits) { l.MemoryBytes = 64 << 20 }, hoard,
			func(o sandbox.Outcome) bool { return o.End.OOMKills > 0 && o.End.Signal == 9 }},
		"more memory": {func(l *job.Limits) { l.MemoryBytes = 512 << 20 }, hoard,
			func(o sandbox.Outcome) bool { return o.End.OOMKills == 0 && o.End.Exited }},
		"fewer processes": {func(l *job.Limits) { l.Processes = 8 }, forks,
			func(o sandbox.Outcome) bool { return string(o.Stdout.Data) == "8\n" }},
		"smaller files": {func(l *job.Limits) { l.FileBytes = 1000 }, "open('f', 'wb').write(bytes(2000))\n",
			func(o sandbox.Outcome) bool { return strings.Contains(string(o.Stderr.Data), "File too large") }},
	}
	e := open(t, nil)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, e, job.DefaultLimits())
			j := program(tt.source)
			j.Limits.WallMS = patience.Milliseconds()
			tt.change(&j.Limits)
			if err := b.Adjust(context.Background(), j.Limits); err != nil {
				t.Fatalf("Adjust: %v", err)
			}
			out, err := b.Run(context.Background(), j)
			if err != nil || out.End == nil {
				t.Fatalf("Run: got %+v, %v", out, err)
			}
			if !tt.correct(out) {
				t.Errorf("got %+v, stdout %q, stderr %q", *out.End, out.Stdout.Data, out.Stderr.Data)
			}
		})
	}
}

func TestAdjustRefuses(t *testing.T) {
	t.Parallel()
	smaller := job.DefaultLimits()
	smaller.MemoryBytes = 64 << 20
	t.Run("what cannot be changed", func(t *testing.T) {
		t.Parallel()
		f := newFakeEngine(t)
		f.pid1 = waiting
		b := launchFake(t, f.open(nil))
		for _, change := range []func(*job.Limits){
			func(l *job.Limits) { l.FileBytes++ },
			func(l *job.Limits) { l.TraceBytes++ },
		} {
			l := job.DefaultLimits()
			change(&l)
			if err := b.Adjust(context.Background(), l); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("got %v, want unsupported", err)
			}
		}
		if n := f.called(opUpdate); n != 0 {
			t.Errorf("asked the engine %d times, want not at all", n)
		}
	})
	t.Run("an engine that does not do it", func(t *testing.T) {
		t.Parallel()
		f := newFakeEngine(t)
		f.pid1 = waiting
		b := launchFake(t, f.open(nil))
		if err := b.Adjust(context.Background(), smaller); !errors.Is(err, sandbox.ErrRefused) {
			t.Errorf("got %v, want refused", err)
		}
	})
	t.Run("an engine that warns", func(t *testing.T) {
		t.Parallel()
		f := newFakeEngine(t)
		f.pid1 = waiting
		f.answer(opUpdate, func(w http.ResponseWriter, _ *http.Request) bool {
			reply(w, 200, container.UpdateResponse{Warnings: []string{"no swap limit"}})
			return true
		})
		b := launchFake(t, f.open(nil))
		if err := b.Adjust(context.Background(), smaller); !errors.Is(err, sandbox.ErrRefused) || !strings.Contains(err.Error(), "no swap limit") {
			t.Errorf("got %v, want refused for the warning", err)
		}
	})
	t.Run("a used sandbox", func(t *testing.T) {
		t.Parallel()
		f := newFakeEngine(t)
		f.pid1 = waiting
		b := launchFake(t, f.open(nil))
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if err := b.Adjust(context.Background(), smaller); !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("got %v, want closed", err)
		}
	})
}

// TestDone kills a waiting container from outside: whoever keeps it hears of it.
func TestDone(t *testing.T) {
	t.Parallel()
	e := open(t, nil)
	b := start(t, e, job.DefaultLimits())
	select {
	case <-b.Done():
		t.Fatal("done before its time")
	default:
	}
	if err := b.kill(context.Background()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-b.Done():
	case <-time.After(patience):
		t.Errorf("not told of the container's end within %v", patience)
	}
}
