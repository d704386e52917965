package pool_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/sandbox/pool"
)

// TestStress takes, runs, gives up, kills, recycles and fails at random, in
// real time, then drains in the middle of it. The engine notes whatever was
// handed out twice, run under wrong limits or closed when gone; setup
// checks that nothing is left.
func TestStress(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		cfg  pool.Config
	}{
		{"plenty of slots", pool.Config{Concurrency: 8}},
		{"few slots", pool.Config{Concurrency: 4, Warm: 4, Slots: 5}},
		{"no stock", pool.Config{Concurrency: 4, Warm: -1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := tc.cfg
			cfg.MinBackoff, cfg.MaxBackoff = 100*time.Microsecond, time.Millisecond
			cfg.MinRetry, cfg.MaxRetry = 100*time.Microsecond, time.Millisecond
			cfg.MaxIdle, cfg.Quiet = 20*time.Millisecond, time.Millisecond
			cfg.MaxWait, cfg.DrainTimeout = 5*time.Second, 5*time.Millisecond
			stress(t, cfg, 1500*time.Millisecond)
		})
	}
}

func stress(t *testing.T, cfg pool.Config, d time.Duration) {
	e := newEngine()
	e.launchTime = func(int) time.Duration { return rand.N(2 * time.Millisecond) }
	e.launchErr = oneIn(8, errEngine)
	e.closeTime = 200 * time.Microsecond
	e.closeErr = func(n int) error {
		if n < 4 && rand.N(8) == 0 {
			return sandbox.ErrQuarantined
		}
		return nil
	}
	e.adjust = func(job.Limits) error {
		return []error{nil, nil, errors.ErrUnsupported, errEngine}[rand.N(4)]
	}
	f := setup(t, e, cfg)

	until, cancel := context.WithCancel(t.Context())
	defer cancel()
	var users sync.WaitGroup
	var served sync.Map
	for range 12 {
		users.Go(func() {
			for until.Err() == nil {
				if !oneJob(t, f, &served) {
					return
				}
			}
		})
	}
	users.Go(func() {
		for until.Err() == nil {
			e.mu.Lock()
			var victim *box
			if n := len(e.boxes); n > 0 {
				victim = e.boxes[max(0, n-1-rand.N(20))]
			}
			e.mu.Unlock()
			if victim != nil {
				victim.kill()
			}
			if rand.N(20) == 0 {
				f.Recycle()
			}
			pauseFor(until, time.Millisecond)
		}
	})
	pauseFor(until, d)
	// A busy machine takes longer to come to something.
	awaitReal(t, "fifty jobs to run", func() bool { return e.runs() >= leastRuns })
	e.set(func(e *engine) { e.closeErr = func(int) error { return nil } })
	pauseFor(until, d/8) // what is under way may still go into quarantine, and comes out of it again
	awaitReal(t, "the quarantine to be empty", func() bool { return f.metric("tracefleet_pool_sandboxes", "quarantined") == 0 })
	if err := f.stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	cancel()
	users.Wait()

	e.mu.Lock()
	defer e.mu.Unlock()
	if slots := cfg.WithDefaults().Slots; e.maxLive > slots {
		t.Errorf("%d sandboxes at once in %d slots", e.maxLive, slots)
	}
	for _, b := range e.boxes {
		if !b.gone {
			t.Errorf("sandbox %d was not closed", b.number)
		}
	}
}

// leastRuns is how many jobs must have run for the test to show something.
const leastRuns = 50

// runs is how many jobs were given to sandboxes.
func (e *engine) runs() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range e.boxes {
		n += b.runs
	}
	return n
}

// awaitReal polls until ok, in real time.
func awaitReal(t *testing.T, what string, ok func() bool) {
	t.Helper()
	const patience = 2 * time.Minute
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
		pauseFor(t.Context(), 5*time.Millisecond)
	}
}

// oneJob does what a worker does, and sometimes gives up in the middle. It is
// false when the pool has stopped.
func oneJob(t *testing.T, f *fixture, served *sync.Map) bool {
	limits := job.DefaultLimits()
	switch rand.N(4) {
	case 0:
		limits = withMemory(64 << 20)
	case 1:
		limits.OutputBytes = 5000 // travels with the job
	}
	ctx, cancel := context.WithTimeout(t.Context(), rand.N(8*time.Millisecond))
	defer cancel()
	got, err := f.Launch(ctx, limits)
	switch {
	case err == nil:
	case errors.Is(err, pool.ErrStopped):
		return false
	case errors.Is(err, errEngine), errors.Is(err, context.DeadlineExceeded):
		return true
	default:
		t.Errorf("launch: %v", err)
		return true
	}
	if _, twice := served.LoadOrStore(pool.Inner(got), true); twice {
		t.Error("one sandbox was handed out twice")
	}
	var closers sync.WaitGroup
	if rand.N(4) == 0 {
		closers.Go(func() { _ = got.Close() })
	}
	if rand.N(8) != 0 {
		_, err := got.Run(ctx, jobWith(limits, rand.N(2*time.Millisecond)))
		if err != nil && !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("run: %v", err)
		}
	}
	_ = got.Close()
	closers.Wait()
	return true
}

func oneIn(n int, err error) func(int) error {
	return func(int) error {
		if rand.N(n) == 0 {
			return err
		}
		return nil
	}
}

// pauseFor waits for d, or until ctx is done.
func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
