package runner_test

import (
	"context"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/redistest"
	"github.com/execra/tracefleet/internal/runner"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/sandbox/fake"
	"github.com/execra/tracefleet/internal/wire"
)

// TestKilledFromOutside: a sandbox that somebody killed is worth one more attempt, not two.
func TestKilledFromOutside(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.create(nil)
	killed := func() error {
		f.launcher.Script(fake.Step{Err: sandbox.ErrKilled})
		_, err := f.runner().Handle(t.Context(), delivery())
		return err
	}
	f.wantFault(killed(), queue.ClassKilled, ledger.StateQueued)
	// Another fault in between says that the fleet is in trouble, not the job.
	f.launcher.Script(fake.Step{Err: errors.New("engine is on fire")})
	_, err := f.runner().Handle(t.Context(), delivery())
	f.wantFault(err, queue.ClassEngine, ledger.StateQueued)
	f.wantFault(killed(), queue.ClassKilled, ledger.StateQueued)
	f.wantFault(killed(), queue.ClassPermanent, ledger.StateDead)
	if e := f.entry(); e.Class != string(queue.ClassKilled) || e.Attempts != 4 {
		t.Errorf("got class %s, %d attempts, want killed, 4", e.Class, e.Attempts)
	}
}

func TestPlatformFaults(t *testing.T) {
	t.Parallel()
	broken := errors.New("engine is on fire")
	for name, c := range map[string]struct {
		script func(*fake.Launcher)
		class  queue.Class
	}{
		"launch":           {func(l *fake.Launcher) { l.FailLaunches(broken) }, queue.ClassEngine},
		"settings refused": {func(l *fake.Launcher) { l.FailLaunches(sandbox.ErrRefused) }, queue.ClassSandbox},
		"run":              {func(l *fake.Launcher) { l.Script(fake.Step{Err: broken}) }, queue.ClassEngine},
		"sandbox expired":  {func(l *fake.Launcher) { l.Script(fake.Step{Err: sandbox.ErrExpired}) }, queue.ClassSandbox},
		"used twice":       {func(l *fake.Launcher) { l.Script(fake.Step{Err: sandbox.ErrUsed}) }, queue.ClassInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.create(nil)
			c.script(f.launcher)
			_, err := f.runner().Handle(t.Context(), delivery())
			f.wantFault(err, c.class, ledger.StateQueued)
			if e := f.entry(); e.Attempts != 1 || e.Class != string(c.class) {
				t.Errorf("got %d attempts, class %s, want 1, %s", e.Attempts, e.Class, c.class)
			}

			c.script(f.launcher)
			_, err = f.runner().Handle(t.Context(), lastDelivery())
			f.wantFault(err, c.class, ledger.StateDead)
			r := f.result()
			if r.Status != job.StatusSystemError || r.Attempt != 2 || !strings.HasPrefix(*r.Error, "The fleet could not run the job ("+string(c.class)+"): ") || r.Headline != *r.Error {
				t.Errorf("got %s, attempt %d, error %q, headline %q", r.Status, r.Attempt, *r.Error, r.Headline)
			}
			dead, err := f.ledger.DeadLetters(t.Context(), ledger.DeadLetterFilter{Class: string(c.class)})
			if err != nil || len(dead) != 1 || dead[0].Message == "" {
				t.Errorf("got dead letters %+v, error %v, want one with a message", dead, err)
			}
		})
	}
}

func TestAnEngineThatHangsIsAFault(t *testing.T) {
	t.Parallel()
	t.Run("launch", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		f.create(nil)
		f.cfg.LaunchTimeout = 20 * time.Millisecond
		f.launcher.HoldLaunches(make(chan struct{}))
		_, err := f.runner().Handle(t.Context(), delivery())
		f.wantFault(err, queue.ClassEngine, ledger.StateQueued)
	})
	t.Run("run", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		f.create(func(j *job.Job) { j.Limits.WallMS = 5000 }) // in which the run begins, on a busy machine too
		f.cfg.RunGrace = time.Millisecond
		f.wantFault(f.await(f.running(t.Context(), delivery())), queue.ClassEngine, ledger.StateQueued)
	})
}

func TestASandboxInQuarantineDoesNotDelayTheAnswer(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.create(nil)
	f.launcher.Script(fake.Step{Outcome: sandbox.Outcome{End: &wire.EndInfo{Exited: true}}, CloseErr: sandbox.ErrQuarantined})
	if r := f.handle(delivery()); r.Status != job.StatusOK {
		t.Errorf("got %s, want ok", r.Status)
	}
	if n, _ := f.launcher.Remaining(t.Context()); n != 1 || f.launcher.Closes() != 1 {
		t.Errorf("got %d sandboxes left after %d closes", n, f.launcher.Closes())
	}
	f.launcher = fake.New() // what is left is the launcher's business
}

func TestResultsSurviveALossOfRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.StartProxy(t, server.Addr())
	f := setupWith(t, redistest.Client(t, proxy.Addr()))
	f.create(source(`#: stdout "kept"`))
	tries := 0
	f.store = lostBeforeFinish{f.ledger, func() {
		if tries++; tries == 1 {
			proxy.Cut()
		} else {
			proxy.Mend()
		}
	}}
	if r := f.handle(delivery()); r.Stdout != "kept" || tries < 2 || len(f.launcher.Jobs()) != 1 {
		t.Errorf("got stdout %q after %d tries and %d runs", r.Stdout, tries, len(f.launcher.Jobs()))
	}
}

func TestResultsThatCannotBeStoredAreRetried(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.create(nil)
	f.cfg.StoreTimeout = 3 * time.Second // also for giving the job back, which succeeds
	f.store = failingFinish{f.ledger}
	_, err := f.runner().Handle(t.Context(), delivery())
	f.wantFault(err, queue.ClassStore, ledger.StateQueued)
}

type failingFinish struct{ runner.Ledger }

func (failingFinish) Finish(context.Context, string, int64, job.Result) error {
	return errors.New("OOM command not allowed")
}

func TestLargeResultsAreCut(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.create(func(j *job.Job) { j.Limits.OutputBytes = 4_000_000 })
	random := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 3_000_000)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	text := []byte(base64.StdEncoding.EncodeToString(b))[:4_000_000]
	f.launcher.Script(fake.Step{Outcome: sandbox.Outcome{
		End:    &wire.EndInfo{Exited: true, StdoutBytes: 4_000_000, StderrBytes: 5},
		Stdout: sandbox.Stream{Data: text, Total: 4_000_000}, Stderr: sandbox.Stream{Data: []byte("small"), Total: 5},
	}})
	r := f.handle(delivery())
	if r.Status != job.StatusOK || !r.StdoutTruncated || r.StdoutBytes != 4_000_000 || len(r.Stdout) < 500_000 || r.Stderr != "small" || r.StderrTruncated {
		t.Errorf("got %s, %d of %d bytes of stdout, truncated %t, stderr %q", r.Status, len(r.Stdout), r.StdoutBytes, r.StdoutTruncated, r.Stderr)
	}
	if len(r.Tracer.Notes) == 0 {
		t.Error("nothing notes the cut")
	}
}

func TestNewRefusesABadConfig(t *testing.T) {
	t.Parallel()
	_, err := runner.New(nil, nil, runner.Config{LaunchTimeout: -1, Maxima: job.Limits{WallMS: 1}})
	for _, want := range []string{"Worker: must not be empty", "LaunchTimeout: must be more than 0", "Maxima: ", "limits.wall_ms: must be between"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
