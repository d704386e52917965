package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/wire"
)

// lifeCase is one case about the life of a sandbox.
type lifeCase struct {
	name  string
	check func(*testing.T, sandbox.Launcher)
}

func lifeCases() []lifeCase {
	return []lifeCase{
		{"launch with a cancelled ctx", launchCancelled},
		{"cancel keeps what came before", cancelMidRun},
		{"cancelled before the run", cancelledBefore},
		{"a second run is refused", secondRun},
		{"a run beside a run is refused", runBesideRun},
		{"other limits are refused", otherLimits},
		{"close before run", closeBeforeRun},
		{"close twice and at once", closeTwice},
		{"close during run", closeDuringRun},
		{"many at once do not mix", manyAtOnce},
		{"a sandbox is fresh", freshness},
	}
}

const hangProgram = `#: stdout "before\n"
#: stderr "and there\n"
#: hang
import sys, time
print("before", flush=True)
print("and there", file=sys.stderr, flush=True)
time.sleep(3600)
`

// soon is long enough for a program to get as far as its hang, as a rule.
const soon = 2 * time.Second

func launchCancelled(t *testing.T, l sandbox.Launcher) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s, err := l.Launch(ctx, job.DefaultLimits())
	if !errors.Is(err, context.Canceled) || s != nil {
		t.Errorf("got %v, %v; want no sandbox and context.Canceled", s, err)
	}
}

func cancelMidRun(t *testing.T, l sandbox.Launcher) {
	// On a busy machine the program may not have come to its hang when the run is cancelled: then it is tried again,
	// with more time.
	for wait := soon; ; wait *= 2 {
		out := cancelAfter(t, l, wait)
		if !out.Interrupted || !hungUp(out) || out.DeadlineHit || out.Invalid != "" {
			t.Errorf("got interrupted %v, end %+v, deadline hit %v, invalid %q; want interrupted and nothing else",
				out.Interrupted, out.End, out.DeadlineHit, out.Invalid)
		}
		if (out.Stdout.Total == 0 || out.Stderr.Total == 0) && wait < patience/4 {
			continue
		}
		wantText(t, "stdout", out.Stdout, "before\n")
		wantText(t, "stderr", out.Stderr, "and there\n")
		if out.Wall <= 0 {
			t.Errorf("got wall %v, want how long it ran", out.Wall)
		}
		return
	}
}

// cancelAfter cancels a run when the time is over.
func cancelAfter(t *testing.T, l sandbox.Launcher, wait time.Duration) sandbox.Outcome {
	t.Helper()
	s := launch(t, l, job.DefaultLimits())
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	out, err := s.Run(ctx, newJob(hangProgram))
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return out
}

// hungUp tells whether the report of a cancelled run is one: none, when the
// sandbox was killed, or that the program was killed for the cancellation.
func hungUp(out sandbox.Outcome) bool {
	return out.End == nil || out.End.Killed == wire.KilledHangup
}

func cancelledBefore(t *testing.T, l sandbox.Launcher) {
	s := launch(t, l, job.DefaultLimits())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out, err := s.Run(ctx, newJob(hangProgram))
	if err != nil || !out.Interrupted || !hungUp(out) {
		t.Errorf("got interrupted %v, end %+v, error %v; want interrupted", out.Interrupted, out.End, err)
	}
}

func secondRun(t *testing.T, l sandbox.Launcher) {
	s := launch(t, l, job.DefaultLimits())
	j := newJob("#: stdout \"once\\n\"\nprint('once')\n")
	if _, err := s.Run(context.Background(), j); err != nil {
		t.Fatalf("first Run: %v", err)
	}
	if out, err := s.Run(context.Background(), j); !errors.Is(err, sandbox.ErrUsed) {
		t.Errorf("second Run: got %+v, %v; want ErrUsed", out, err)
	}
}

func runBesideRun(t *testing.T, l sandbox.Launcher) {
	s := launch(t, l, job.DefaultLimits())
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	const callers = 3
	errs := make(chan error, callers)
	for range callers {
		go func() {
			_, err := s.Run(ctx, newJob(hangProgram))
			errs <- err
		}()
	}
	var ran, refused int
	for range callers {
		switch err := <-errs; {
		case err == nil:
			ran++
		case errors.Is(err, sandbox.ErrUsed):
			refused++
		default:
			t.Errorf("Run: %v", err)
		}
	}
	if ran != 1 || refused != callers-1 {
		t.Errorf("got %d runs and %d refusals, want 1 and %d", ran, refused, callers-1)
	}
}

func otherLimits(t *testing.T, l sandbox.Launcher) {
	s := launch(t, l, job.DefaultLimits())
	j := newJob("#: exit 4\nraise SystemExit(4)\n")
	for name, change := range map[string]func(*job.Limits){
		"less memory":    func(l *job.Limits) { l.MemoryBytes /= 2 },
		"fewer tasks":    func(l *job.Limits) { l.Processes /= 2 },
		"larger files":   func(l *job.Limits) { l.FileBytes *= 2 },
		"a larger trace": func(l *job.Limits) { l.TraceBytes *= 2 },
	} {
		other := j
		change(&other.Limits)
		if _, err := s.Run(context.Background(), other); !errors.Is(err, sandbox.ErrMismatch) {
			t.Errorf("%s: got %v, want ErrMismatch", name, err)
		}
	}
	out, err := s.Run(context.Background(), j)
	if err != nil {
		t.Fatalf("Run of a job that fits: %v", err)
	}
	wantExit(t, out, 4)
}

func closeBeforeRun(t *testing.T, l sandbox.Launcher) {
	s := launch(t, l, job.DefaultLimits())
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if _, err := s.Run(context.Background(), newJob(hangProgram)); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("Run after Close: got %v, want ErrClosed", err)
	}
}

func closeTwice(t *testing.T, l sandbox.Launcher) {
	s := launch(t, l, job.DefaultLimits())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
}

func closeDuringRun(t *testing.T, l sandbox.Launcher) {
	s := launch(t, l, job.DefaultLimits())
	closer := time.AfterFunc(soon/2, func() { _ = s.Close() }) // the one in launch reports
	defer closer.Stop()
	if _, err := s.Run(context.Background(), newJob(hangProgram)); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("Run: got %v, want ErrClosed", err)
	}
}

func manyAtOnce(t *testing.T, l sandbox.Launcher) {
	var wg sync.WaitGroup
	for n := range 4 {
		j := newJob(fmt.Sprintf("#: stdin\n#: stdout \" and %[1]d\"\nimport sys\nprint(sys.stdin.read() + ' and %[1]d', end='')\n", n))
		j.Stdin = fmt.Sprintf("job %d", n)
		s := launch(t, l, j.Limits)
		wg.Go(func() {
			out, err := s.Run(context.Background(), j)
			if err != nil {
				t.Errorf("Run %d: %v", n, err)
				return
			}
			wantText(t, "stdout", out.Stdout, fmt.Sprintf("job %d and %d", n, n))
		})
	}
	wg.Wait()
}

const leaveProgram = `#: touch "/tmp/left"
#: touch "/job/left"
#: touch "/dev/shm/left"
#: ls "/tmp/left"
#: ls "/job/left"
#: ls "/dev/shm/left"
import os
for place in ("/tmp", "/job", "/dev/shm"):
    open(place + "/left", "w").close()
for place in ("/tmp", "/job", "/dev/shm"):
    print("there" if os.path.exists(place + "/left") else "not there")
`

const lookProgram = `#: ls "/tmp/left"
#: ls "/job/left"
#: ls "/dev/shm/left"
import os
for place in ("/tmp", "/job", "/dev/shm"):
    print("there" if os.path.exists(place + "/left") else "not there")
`

func freshness(t *testing.T, l sandbox.Launcher) {
	// The second is launched while the first still exists, the third after it.
	first := launch(t, l, job.DefaultLimits())
	second := launch(t, l, job.DefaultLimits())
	out, err := first.Run(context.Background(), newJob(leaveProgram))
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	wantText(t, "stdout of the first", out.Stdout, "there\nthere\nthere\n")
	out, err = second.Run(context.Background(), newJob(lookProgram))
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	wantText(t, "stdout of the second", out.Stdout, "not there\nnot there\nnot there\n")
	if err := first.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	wantText(t, "stdout of the third", runOnce(t, l, newJob(lookProgram)).Stdout, "not there\nnot there\nnot there\n")
}
