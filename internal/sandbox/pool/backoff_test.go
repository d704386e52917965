package pool_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/sandbox/pool"
)

var errEngine = errors.New("engine is down")

func TestFailingEngineIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.launchErr = func(int) error { return errEngine }
		f := setup(t, e, pool.Config{Concurrency: 4, MinBackoff: time.Second, MaxBackoff: 30 * time.Second})
		await(10 * time.Minute)
		// As many at once as are wanted, or fewer, then pauses of 1, 2, 4, 8, 16, and about 19 of 30 s less up to a quarter.
		if n := f.launches(); n < 20 || n > 35 {
			t.Errorf("%d launches in ten minutes", n)
		}
		const wanted = 4
		for i := wanted + 1; i < len(e.starts); i++ {
			if gap := e.starts[i].Sub(e.starts[i-1]); gap < 750*time.Millisecond {
				t.Errorf("attempt %d came %v after the one before", i, gap)
			}
		}

		e.set(func(e *engine) { e.launchErr = func(int) error { return nil } })
		await(31 * time.Second)
		f.wantSandboxes("warm", 4)
	})
}

func TestFailuresAnswerOneJobAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.launchErr = func(n int) error {
			if n <= 3 {
				return errEngine
			}
			return nil
		}
		f := setup(t, e, pool.Config{Concurrency: 4, Warm: -1, MaxLaunching: 1, MinBackoff: time.Second})
		var failed, served int
		answers := make(chan error)
		for range 4 {
			go func() {
				box, err := f.Launch(t.Context(), job.DefaultLimits())
				answers <- err
				if err == nil {
					_ = box.Close()
				}
			}()
		}
		for range 4 {
			switch err := <-answers; {
			case err == nil:
				served++
			case errors.Is(err, errEngine):
				failed++
			default:
				t.Errorf("got %v, want the engine's error", err)
			}
		}
		if failed != 3 || served != 1 {
			t.Errorf("%d failed, %d served, want 3 and 1", failed, served)
		}
	})
}

func TestLongWaitTellsWhatTheEngineSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.launchErr = func(int) error { return errEngine }
		f := setup(t, e, pool.Config{MinBackoff: time.Hour, MaxBackoff: time.Hour})
		await(time.Minute)
		_, err := f.Launch(t.Context(), job.DefaultLimits())
		if !errors.Is(err, pool.ErrNoSandbox) || !errors.Is(err, errEngine) || errors.Is(err, sandbox.ErrNoRoom) {
			t.Errorf("got %v, want ErrNoSandbox and the engine's error, not ErrNoRoom", err)
		}
		if want := "take sandbox: no sandbox came free within 1m0s: engine is down"; err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	})
}

func TestFailureForTheStockReachesNoJobThatAnotherLaunchServes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.launchErr = func(n int) error {
			if n == 1 {
				return errEngine
			}
			return nil
		}
		f := setup(t, e, pool.Config{Concurrency: 2})
		f.take(job.DefaultLimits())
	})
}
