package pool_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox/pool"
)

// saturate keeps jobs waiting until ctx is done.
func (f *fixture) saturate(ctx context.Context, jobs int) (wait func()) {
	done := make(chan struct{})
	for range jobs {
		go func() {
			defer func() { done <- struct{}{} }()
			for ctx.Err() == nil {
				box, err := f.Launch(ctx, job.DefaultLimits())
				if err != nil {
					return
				}
				_, _ = box.Run(ctx, jobWith(job.DefaultLimits(), 10*time.Millisecond))
				_ = box.Close()
			}
		}()
	}
	return func() {
		for range jobs {
			<-done
		}
	}
}

// rates makes an engine that does rates[n-1] launches per second when n are
// under way at once, and more are as good as the last. Each launch takes up to
// a fifth more or less than that.
func rates(rates ...float64) func(int) time.Duration {
	r := rand.New(rand.NewPCG(1, 2))
	return func(inFlight int) time.Duration {
		n := min(inFlight, len(rates))
		took := float64(inFlight) / rates[n-1] * (0.8 + 0.4*r.Float64())
		return time.Duration(took * float64(time.Second))
	}
}

func TestParallelismIsFound(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		rates       []float64
		least, most int // where it must stand
	}{
		{"a serial engine", []float64{10, 10, 10, 10, 10, 10, 10, 10}, 1, 3},
		{"more is worse", []float64{10, 8, 6, 5, 4, 3, 2, 1}, 1, 1},
		{"a hill", []float64{8, 12, 14.5, 16, 14, 12, 10, 9}, 3, 5},
		{"more is better", []float64{8, 16, 24, 32, 40, 48, 56, 64}, 7, 8},
		{"a plateau", []float64{8, 13, 15, 15.1, 15.2, 15.2, 15.2, 15}, 3, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEngine()
				e.launchTime = rates(tc.rates...)
				f := setup(t, e, pool.Config{Concurrency: 8, MaxLaunching: 8})
				ctx, cancel := context.WithCancel(t.Context())
				wait := f.saturate(ctx, 8)
				await(2 * time.Minute)
				// Trials go on forever, so look often and count.
				good := 0
				for range 100 {
					await(3 * time.Second)
					if at := int(f.metric("tracefleet_pool_launch_parallelism", "")); at >= tc.least && at <= tc.most {
						good++
					}
				}
				if good < 85 {
					t.Errorf("between %d and %d only %d%% of the time", tc.least, tc.most, good)
				}
				before, began := f.launches(), time.Now()
				await(time.Minute)
				best := 0.0
				for _, r := range tc.rates {
					best = max(best, r)
				}
				if got := float64(f.launches()-before) / time.Since(began).Seconds(); got < 0.9*best {
					t.Errorf("%.1f launches per second, the best is %.1f", got, best)
				}
				cancel()
				wait()
			})
		})
	}
}

func TestParallelismFollowsTheEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.launchTime = rates(8, 16, 24, 32, 40, 48, 56, 64)
		f := setup(t, e, pool.Config{Concurrency: 8, MaxLaunching: 8})
		ctx, cancel := context.WithCancel(t.Context())
		wait := f.saturate(ctx, 8)
		await(2 * time.Minute)
		at := func() float64 { return f.metric("tracefleet_pool_launch_parallelism", "") }
		if at() < 7 {
			t.Errorf("stands at %v, want 7 or 8", at())
		}
		e.set(func(e *engine) { e.launchTime = rates(8, 14, 12, 10, 8, 7, 6, 5) })
		await(5 * time.Minute)
		if at() > 3 {
			t.Errorf("stands at %v after the engine has slowed down, want about 2", at())
		}
		cancel()
		wait()
	})
}

func TestParallelismIsNotJudgedWhenItIsNotUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		f := setup(t, e, pool.Config{Concurrency: 2, Slots: 8, MaxLaunching: 8})
		await(time.Second)
		before := f.metric("tracefleet_pool_launch_parallelism", "")
		for range 500 { // a job now and then
			await(time.Second)
			box, _ := f.take(job.DefaultLimits())
			_ = box.Close()
		}
		if now := f.metric("tracefleet_pool_launch_parallelism", ""); now != before {
			t.Errorf("moved from %v to %v", before, now)
		}
	})
}
