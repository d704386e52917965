// Package sandboxtest is the conformance suite of the contract in package
// sandbox. A new Launcher is one call to Run.
package sandboxtest

import (
	"context"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
)

// Prober is what a Launcher must have besides, to be put under the suite.
type Prober interface {
	// Remaining counts the sandboxes that were launched and still exist, in
	// whatever sense matters: containers, processes, entries.
	Remaining(ctx context.Context) (int, error)
}

// patience bounds each single step of the suite; a loaded machine may need it.
const patience = 2 * time.Minute

// Run puts a Launcher under the suite. newLauncher is called once; the
// Launcher must implement Prober, and nobody else may launch from it meanwhile.
func Run(t *testing.T, newLauncher func(t *testing.T) sandbox.Launcher) {
	l := newLauncher(t)
	probe, ok := l.(Prober)
	if !ok {
		t.Fatalf("%T does not implement sandboxtest.Prober", l)
	}
	t.Run("contract", func(t *testing.T) {
		for _, c := range programCases() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.check(t, c.job, runOnce(t, l, c.job))
			})
		}
		for _, c := range lifeCases() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.check(t, l)
			})
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if n, err := probe.Remaining(ctx); n != 0 || err != nil {
		t.Errorf("after everything is closed: got %d sandboxes, error %v; want none", n, err)
	}
}

// newJob is a complete job around one program, with the default limits but for its time.
func newJob(source string) job.Job {
	limits := job.DefaultLimits()
	limits.WallMS = patience.Milliseconds() // a program may wait long for a processor
	return job.Job{
		Language: job.LanguagePython, Entrypoint: "main.py", Files: map[string]string{"main.py": source},
		Args: []string{}, Limits: limits, Queue: job.QueueDefault,
		Trace: job.TraceOptions{Mode: job.TraceFull, Values: true, Include: []string{"."}},
	}
}

// launch starts a sandbox and closes it at the end of the test.
func launch(t *testing.T, l sandbox.Launcher, limits job.Limits) sandbox.Sandbox {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := l.Launch(ctx, limits)
	if err != nil {
		t.Fatalf("Launch: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// runOnce runs a job in a sandbox of its own.
func runOnce(t *testing.T, l sandbox.Launcher, j job.Job) sandbox.Outcome {
	t.Helper()
	s := launch(t, l, j.Limits)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := s.Run(ctx, j)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return out
}
