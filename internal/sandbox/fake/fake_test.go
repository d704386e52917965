package fake_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/sandbox/fake"
	"github.com/execra/tracefleet/internal/sandbox/sandboxtest"
	"github.com/execra/tracefleet/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	sandboxtest.Run(t, func(*testing.T) sandbox.Launcher { return fake.New() })
}

func TestScriptedRuns(t *testing.T) {
	t.Parallel()
	l := fake.New()
	want := sandbox.Outcome{End: &wire.EndInfo{Exited: true, ExitCode: 7}}
	broken := errors.New("engine gone")
	l.Script(fake.Step{Outcome: want}, fake.Step{Err: broken, CloseErr: sandbox.ErrQuarantined})

	first, second := launch(t, l), launch(t, l)
	got, err := first.Run(context.Background(), job.Job{Language: "python", Limits: job.DefaultLimits()})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.End, got.End); diff != "" || got.StartedAt.IsZero() || got.Runtime.Engine != "fake" {
		t.Errorf("end (-want +got):\n%s\nstarted %v, runtime %+v", diff, got.StartedAt, got.Runtime)
	}
	if _, err := second.Run(context.Background(), job.Job{Limits: job.DefaultLimits()}); !errors.Is(err, broken) {
		t.Errorf("got %v, want the scripted error", err)
	}
	if err := first.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for range 2 {
		if err := second.Close(); !errors.Is(err, sandbox.ErrQuarantined) {
			t.Errorf("Close: got %v, want ErrQuarantined", err)
		}
	}
	remaining, _ := l.Remaining(context.Background()) // never fails
	if n, jobs := len(l.Launches()), len(l.Jobs()); n != 2 || jobs != 2 || l.Closes() != 2 || remaining != 1 {
		t.Errorf("got %d launches, %d jobs, %d closes, %d remaining; want 2, 2, 2, 1", n, jobs, l.Closes(), remaining)
	}
}

func TestHeldRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(s sandbox.Sandbox, cancel func(), release chan struct{})
		want func(sandbox.Outcome, error) bool
	}{
		{"released", func(_ sandbox.Sandbox, _ func(), release chan struct{}) { close(release) },
			func(out sandbox.Outcome, err error) bool { return err == nil && out.End != nil && !out.Interrupted }},
		{"cancelled", func(_ sandbox.Sandbox, cancel func(), _ chan struct{}) { cancel() },
			func(out sandbox.Outcome, err error) bool { return err == nil && out.End == nil && out.Interrupted }},
		{"closed", func(s sandbox.Sandbox, _ func(), _ chan struct{}) { _ = s.Close() },
			func(_ sandbox.Outcome, err error) bool { return errors.Is(err, sandbox.ErrClosed) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := fake.New()
			started, release := make(chan struct{}), make(chan struct{})
			l.Script(fake.Step{Outcome: sandbox.Outcome{End: &wire.EndInfo{}}, Started: started, Release: release})
			s := launch(t, l)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			go func() {
				<-started
				c.end(s, cancel, release)
			}()
			if out, err := s.Run(ctx, job.Job{Limits: job.DefaultLimits()}); !c.want(out, err) {
				t.Errorf("got %+v, %v", out, err)
			}
		})
	}
}

func TestScriptedLaunches(t *testing.T) {
	t.Parallel()
	l := fake.New()
	broken := errors.New("no engine")
	l.FailLaunches(broken, nil)
	if _, err := l.Launch(context.Background(), job.DefaultLimits()); !errors.Is(err, broken) {
		t.Errorf("first Launch: got %v, want the scripted error", err)
	}
	launch(t, l)
	gate := make(chan struct{})
	l.HoldLaunches(gate)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.Launch(ctx, job.DefaultLimits()); !errors.Is(err, context.Canceled) {
		t.Errorf("held Launch: got %v, want context.Canceled", err)
	}
	close(gate)
	launch(t, l)
}

func TestUnknownDirective(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"#: fly\n", "#: exit much\n", "#: stdout unquoted\n", "#: flood stdout\n"} {
		s := launch(t, fake.New())
		j := job.Job{Entrypoint: "main.py", Files: map[string]string{"main.py": source}, Limits: job.DefaultLimits()}
		if _, err := s.Run(context.Background(), j); err == nil {
			t.Errorf("%q: got no error", source)
		}
	}
}

func launch(t *testing.T, l *fake.Launcher) sandbox.Sandbox {
	t.Helper()
	s, err := l.Launch(context.Background(), job.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return s
}
