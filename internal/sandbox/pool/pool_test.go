package pool_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/sandbox/pool"
)

func TestWarmSandboxIsTakenAtOnceAndReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, newEngine(), pool.Config{Concurrency: 3})
		await(time.Second)
		f.wantSandboxes("warm", 3)

		box, waited := f.take(job.DefaultLimits())
		if waited != 0 {
			t.Errorf("waited %v for a warm sandbox", waited)
		}
		if _, err := box.Run(t.Context(), jobWith(job.DefaultLimits(), 10*time.Millisecond)); err != nil {
			t.Fatalf("run: %v", err)
		}
		began := time.Now()
		if err := box.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("close blocked for %v", took)
		}
		synctest.Wait()
		f.wantSandboxes("closing", 1)
		await(time.Second)
		f.wantSandboxes("warm", 3)
		f.wantSandboxes("closing", 0)
		f.wantTaken("warm", 1)
		f.wantTaken("cold", 0)
		if err := box.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
		if _, err := box.Run(t.Context(), job.Job{}); !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("run after close: got %v, want ErrClosed", err)
		}
	})
}

func TestWithoutStockEveryLaunchIsCold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, newEngine(), pool.Config{Concurrency: 2, Warm: -1})
		await(time.Minute)
		if n := f.launches(); n != 0 {
			t.Fatalf("%d launches before any job", n)
		}
		box, waited := f.take(job.DefaultLimits())
		if waited != 100*time.Millisecond {
			t.Errorf("waited %v, want the time of one launch", waited)
		}
		_ = box.Close()
		await(time.Minute)
		if n := f.launches(); n != 1 {
			t.Errorf("%d launches, want 1", n)
		}
		f.wantTaken("cold", 1)
	})
}

func TestWaitingJobsGoBeforeTheStock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, newEngine(), pool.Config{Concurrency: 4, MaxLaunching: 1})
		await(50 * time.Millisecond) // the first launch for the stock is half done
		_, waited := f.take(job.DefaultLimits())
		if waited != 50*time.Millisecond {
			t.Errorf("a job of the class waited %v, want the rest of the launch under way", waited)
		}
		await(50 * time.Millisecond) // so is the second
		own, waited := f.take(withMemory(64 << 20))
		if waited != 150*time.Millisecond {
			t.Errorf("a job with other limits waited %v, want 50ms and its own launch next", waited)
		}
		if _, err := own.Run(t.Context(), jobWith(withMemory(64<<20), time.Millisecond)); err != nil {
			t.Errorf("run: %v", err)
		}
		f.wantSandboxes("warm", 1)
	})
}

func TestLimitsOfWaitingSandboxesAreAdjusted(t *testing.T) {
	t.Parallel()
	broken := errors.New("engine said no")
	for _, tc := range []struct {
		name      string
		err       error
		how       string
		warm      int // right after
		discarded int
		waited    time.Duration
	}{
		{"adjusted", nil, "adjusted", 1, 0, 0},
		{"unsupported", errors.ErrUnsupported, "cold", 2, 0, 100 * time.Millisecond},
		{"failed", broken, "cold", 2, 1, 100 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEngine()
				e.adjust = func(job.Limits) error { return tc.err }
				f := setup(t, e, pool.Config{Concurrency: 2})
				await(time.Second)
				box, waited := f.take(withMemory(64 << 20))
				synctest.Wait()
				if waited != tc.waited {
					t.Errorf("waited %v, want %v", waited, tc.waited)
				}
				f.wantTaken(tc.how, 1)
				f.wantSandboxes("warm", tc.warm)
				f.wantDiscarded("adjust", tc.discarded)
				// The engine notes a fault when the limits are not the job's.
				if _, err := box.Run(t.Context(), jobWith(withMemory(64<<20), time.Millisecond)); err != nil {
					t.Errorf("run: %v", err)
				}
				_ = box.Close()
			})
		})
	}
}

func TestSlotsBoundEverySandbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.closeTime = time.Second
		f := setup(t, e, pool.Config{Concurrency: 2, Warm: 2, Slots: 3})
		await(time.Second)
		a, _ := f.take(job.DefaultLimits())
		b, _ := f.take(job.DefaultLimits())
		await(time.Second)
		f.wantSandboxes("warm", 1) // the third slot
		c, _ := f.take(job.DefaultLimits())
		for _, box := range []sandbox.Sandbox{a, b, c} {
			_ = box.Close()
		}
		_, waited := f.take(job.DefaultLimits())
		if waited != 1100*time.Millisecond {
			t.Errorf("waited %v, want a removal and a launch", waited)
		}
		await(5 * time.Second)
		if e.maxLive > 3 {
			t.Errorf("%d sandboxes at once, want at most 3", e.maxLive)
		}
	})
}

func TestStockMakesRoomForOtherLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, newEngine(), pool.Config{Concurrency: 2, Warm: 2, Slots: 2})
		await(time.Second)
		f.wantSandboxes("warm", 2)
		box, waited := f.take(withMemory(64 << 20))
		if waited != 150*time.Millisecond {
			t.Errorf("waited %v, want a removal and a launch", waited)
		}
		f.wantDiscarded("evicted", 1)
		_ = box.Close()
		await(time.Second)
		f.wantSandboxes("warm", 2)
	})
}

func TestDeadSandboxIsReplacedAndNeverHandedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, newEngine(), pool.Config{Concurrency: 2})
		await(time.Second)
		f.engine.boxes[0].kill()
		// No time for the pool to hear of it: taking must look for itself.
		box, _ := f.take(job.DefaultLimits())
		if _, err := box.Run(t.Context(), jobWith(job.DefaultLimits(), time.Millisecond)); err != nil {
			t.Errorf("run in a sandbox that should live: %v", err)
		}
		_ = box.Close()
		await(time.Second)
		f.wantSandboxes("warm", 2)
		f.wantDiscarded("died", 1)

		f.engine.boxes[len(f.engine.boxes)-1].kill()
		await(time.Second)
		f.wantSandboxes("warm", 2)
		f.wantDiscarded("died", 2)
	})
}

func TestOldSandboxesAreRenewedOneByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const maxIdle = 10 * time.Minute
		f := setup(t, newEngine(), pool.Config{Concurrency: 4, MaxIdle: maxIdle})
		await(maxIdle * 3 / 4)
		f.wantDiscarded("aged", 0)
		if n := f.launches(); n != 4 {
			t.Errorf("%d launches, want 4: an idle pool does nothing", n)
		}
		await(maxIdle / 4)
		f.wantDiscarded("aged", 4)
		for range 100 {
			await(time.Minute)
			box, _ := f.take(job.DefaultLimits())
			_ = box.Close()
		}
		for _, b := range f.engine.boxes {
			if age := time.Since(b.ready); !b.gone && age > maxIdle {
				t.Errorf("sandbox %d has waited %v", b.number, age)
			}
		}
	})
}

func TestRecycleReplacesTheStock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, newEngine(), pool.Config{Concurrency: 4, MaxLaunching: 2})
		await(150 * time.Millisecond) // two wait, two are under way
		old := f.launches()
		f.Recycle()
		for range 4 {
			box, _ := f.take(job.DefaultLimits())
			_ = box.Close()
		}
		await(time.Second)
		f.wantSandboxes("warm", 4)
		f.wantDiscarded("recycled", old)
		if n := f.launches(); n != old+8 {
			t.Errorf("%d launches, want %d", n, old+8)
		}
	})
}

func TestRecycleRepeatsALaunchForOneJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, newEngine(), pool.Config{Concurrency: 1, Warm: -1})
		time.AfterFunc(50*time.Millisecond, f.Recycle)
		_, waited := f.take(withMemory(64 << 20))
		if waited != 200*time.Millisecond {
			t.Errorf("waited %v, want two launches", waited)
		}
		f.wantDiscarded("recycled", 1)
	})
}

func TestQuarantineKeepsTheSlotUntilTheRemovalIsProven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.closeErr = func(n int) error {
			if n <= 3 {
				return sandbox.ErrQuarantined
			}
			return nil
		}
		f := setup(t, e, pool.Config{Concurrency: 1, Warm: -1, Slots: 1, MinRetry: 4 * time.Second})
		box, _ := f.take(job.DefaultLimits())
		_ = box.Close()
		await(time.Second)
		f.wantSandboxes("quarantined", 1)
		_, waited := f.take(job.DefaultLimits())
		// Pauses of 4, 8 and 16 s, each less up to a quarter.
		if waited < 20*time.Second || waited > 29*time.Second {
			t.Errorf("waited %v for the slot", waited)
		}
		e.set(func(e *engine) { e.closeErr = func(int) error { return nil } })
	})
}

// warden is an engine that keeps its quarantine itself.
type warden struct {
	*engine
	lost atomic.Int64
}

func (w *warden) Quarantined() int { return int(w.lost.Load()) }

func TestWardenKeepsTheQuarantine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &warden{engine: newEngine()}
		w.launchErr = func(n int) error {
			if n > 1 {
				return nil
			}
			w.lost.Store(1)
			return sandbox.ErrQuarantined
		}
		p, err := pool.New(w, pool.Config{Warm: -1, Slots: 1, MinRetry: 4 * time.Second}, nil, testLogger(t))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()

		// A failed launch has left something, which holds the only slot.
		if _, err := p.Launch(ctx, job.DefaultLimits()); !errors.Is(err, sandbox.ErrQuarantined) {
			t.Fatalf("got %v, want ErrQuarantined", err)
		}
		began := time.Now()
		time.AfterFunc(10*time.Second, func() { w.lost.Store(0) })
		box, err := p.Launch(ctx, job.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < 10*time.Second || waited > 15*time.Second {
			t.Errorf("waited %v for the slot", waited)
		}
		// So does a failed removal; Close is not called again.
		w.set(func(e *engine) {
			e.closeErr = func(int) error {
				w.lost.Store(1)
				return sandbox.ErrQuarantined
			}
		})
		_ = box.Close()
		await(time.Hour)
		if n := w.boxes[0].closes; n != 1 {
			t.Errorf("close was called %d times", n)
		}
		cancel()
		if err := <-ended; err == nil {
			t.Error("the quarantine was not reported")
		}
	})
}

func TestQuarantineIsReportedAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.closeErr = func(int) error { return sandbox.ErrQuarantined }
		p, err := pool.New(e, pool.Config{}, nil, testLogger(t))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Run(ctx); err == nil || err.Error() != "pool: 1 sandboxes left in quarantine" {
			t.Errorf("run: got %v", err)
		}
	})
}

func TestGivingUpLosesNoSandbox(t *testing.T) {
	t.Parallel()
	gaveUp := errors.New("gave up")
	for _, tc := range []struct {
		name   string
		limits job.Limits
		warm   int
	}{
		{"class: the launch serves the stock", job.DefaultLimits(), 2},
		{"own limits: the launch is canceled", withMemory(64 << 20), 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := setup(t, newEngine(), pool.Config{Concurrency: 1})
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(50*time.Millisecond, func() { cancel(gaveUp) })
				_, err := f.Launch(ctx, tc.limits)
				if !errors.Is(err, gaveUp) || !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want the cause and context.Canceled", err)
				}
				await(time.Second)
				f.wantSandboxes("warm", tc.warm)
				f.wantSandboxes("running", 0)
				if n := f.launches(); n != 2 {
					t.Errorf("%d launches, want one for the job and one for the stock", n)
				}
			})
		})
	}
	t.Run("ctx is done before", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := setup(t, newEngine(), pool.Config{})
			await(time.Second)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := f.Launch(ctx, job.DefaultLimits()); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want context.Canceled", err)
			}
			f.wantSandboxes("warm", 1)
		})
	})
}

func TestWaitIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, newEngine(), pool.Config{Concurrency: 1, Warm: -1, Slots: 1, MaxWait: 20 * time.Second})
		box, _ := f.take(job.DefaultLimits())
		began := time.Now()
		_, err := f.Launch(t.Context(), job.DefaultLimits())
		if !errors.Is(err, pool.ErrNoSandbox) || !errors.Is(err, sandbox.ErrNoRoom) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want ErrNoSandbox and ErrNoRoom alone", err)
		}
		if waited := time.Since(began); waited != 20*time.Second {
			t.Errorf("waited %v", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.Launch(ctx, job.DefaultLimits()); !errors.Is(err, sandbox.ErrNoRoom) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with less time: got %v, want ErrNoRoom and the context's error", err)
		}
		_ = box.Close()
	})
}

func TestHangingLaunchIsEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.launchTime = func(int) time.Duration { return time.Hour }
		f := setup(t, e, pool.Config{Concurrency: 1, Warm: -1, LaunchTimeout: 15 * time.Second})
		began := time.Now()
		_, err := f.Launch(t.Context(), job.DefaultLimits())
		if err == nil || time.Since(began) != 15*time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

func TestRefillIsPutOffWhileAJobRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, newEngine(), pool.Config{Concurrency: 2, Quiet: 60 * time.Millisecond})
		await(time.Second)
		short, _ := f.take(job.DefaultLimits())
		await(20 * time.Millisecond)
		f.wantSandboxes("launching", 0)
		_ = short.Close()
		synctest.Wait()
		f.wantSandboxes("launching", 1) // the job is done

		await(time.Second)
		long, _ := f.take(job.DefaultLimits())
		await(59 * time.Millisecond)
		f.wantSandboxes("launching", 0)
		await(time.Millisecond)
		f.wantSandboxes("launching", 1) // patience is over

		await(time.Second)
		a, _ := f.take(job.DefaultLimits())
		b, _ := f.take(job.DefaultLimits())
		synctest.Wait()
		f.wantSandboxes("launching", 2) // nothing is left for the next job
		for _, box := range []sandbox.Sandbox{long, a, b} {
			_ = box.Close()
		}
	})
}

func TestDrain(t *testing.T) {
	t.Parallel()
	t.Run("waits for a job", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := setup(t, newEngine(), pool.Config{Concurrency: 2, DrainTimeout: 10 * time.Second})
			await(time.Second)
			box, _ := f.take(job.DefaultLimits())
			go func() {
				defer func() { _ = box.Close() }()
				if _, err := box.Run(context.Background(), jobWith(job.DefaultLimits(), 5*time.Second)); err != nil {
					t.Errorf("run: %v", err)
				}
			}()
			synctest.Wait()
			began := time.Now()
			if err := f.stop(); err != nil {
				t.Errorf("run: %v", err)
			}
			if took := time.Since(began); took != 5050*time.Millisecond {
				t.Errorf("drained in %v, want the job and its removal", took)
			}
		})
	})
	t.Run("kills a job that goes on too long", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := setup(t, newEngine(), pool.Config{Concurrency: 2, DrainTimeout: 10 * time.Second})
			await(time.Second)
			box, _ := f.take(job.DefaultLimits())
			ran := make(chan error, 1)
			go func() {
				_, err := box.Run(context.Background(), jobWith(job.DefaultLimits(), time.Hour))
				ran <- err
			}()
			synctest.Wait()
			began := time.Now()
			if err := f.stop(); err != nil {
				t.Errorf("run: %v", err)
			}
			if took := time.Since(began); took != 10050*time.Millisecond {
				t.Errorf("drained in %v, want the timeout and the removal", took)
			}
			if err := <-ran; !errors.Is(err, sandbox.ErrClosed) {
				t.Errorf("the job ended with %v, want ErrClosed", err)
			}
			if err := box.Close(); err != nil {
				t.Errorf("close after the drain: %v", err)
			}
		})
	})
	t.Run("answers waiting jobs, cancels launches", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			e := newEngine()
			e.launchTime = func(int) time.Duration { return time.Hour }
			f := setup(t, e, pool.Config{Concurrency: 4})
			answers := make(chan error, 3) // one for each job
			for _, l := range []job.Limits{job.DefaultLimits(), job.DefaultLimits(), withMemory(64 << 20)} {
				go func() {
					_, err := f.Launch(context.Background(), l)
					answers <- err
				}()
			}
			synctest.Wait()
			began := time.Now()
			if err := f.stop(); err != nil {
				t.Errorf("run: %v", err)
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("drained in %v", took)
			}
			for range 3 {
				if err := <-answers; !errors.Is(err, pool.ErrStopped) {
					t.Errorf("got %v, want ErrStopped", err)
				}
			}
			if _, err := f.Launch(context.Background(), job.DefaultLimits()); !errors.Is(err, pool.ErrStopped) {
				t.Errorf("launch afterwards: got %v, want ErrStopped", err)
			}
			if err := f.Run(context.Background()); err == nil {
				t.Error("run could be called twice")
			}
			f.Recycle() // must not block
		})
	})
}
