package pool_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/sandbox/fake"
	"github.com/execra/tracefleet/internal/sandbox/pool"
)

// runPool runs a pool over l until the end of the benchmark.
func runPool(b *testing.B, l sandbox.Launcher, cfg pool.Config) *fixture {
	b.Helper()
	registry := prometheus.NewPedanticRegistry()
	p, err := pool.New(l, cfg, pool.NewMetrics(registry), zap.NewNop())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Errorf("run: %v", err)
		}
	})
	return &fixture{Pool: p, t: b, registry: registry}
}

// settle waits until the stock is full and nothing is under way.
func (f *fixture) settle(warm int) {
	f.t.Helper()
	deadline := time.After(time.Minute)
	for {
		busy := f.metric("tracefleet_pool_sandboxes", "launching") + f.metric("tracefleet_pool_sandboxes", "closing")
		there := f.metric("tracefleet_pool_sandboxes", "warm")
		if busy == 0 && there >= float64(warm) {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			f.t.Fatalf("%v warm, %v under way", there, busy)
		}
	}
}

// hello is the smallest job that is traced.
func hello() job.Job {
	return job.Job{
		Language: job.LanguagePython, Entrypoint: "main.py", Files: map[string]string{"main.py": "print(1)\n"},
		Limits: job.DefaultLimits(), Trace: job.TraceOptions{Mode: job.TraceFull, Values: true, Include: []string{"."}},
	}
}

// serve takes a sandbox and runs a job in it.
func serve(l sandbox.Launcher) (sandbox.Sandbox, error) {
	ctx := context.Background()
	box, err := l.Launch(ctx, job.DefaultLimits())
	if err != nil {
		return nil, err
	}
	out, err := box.Run(ctx, hello())
	if err == nil && string(out.Stdout.Data) != "1\n" {
		err = fmt.Errorf("the job printed %q", out.Stdout.Data)
	}
	if err != nil {
		return nil, errors.Join(err, box.Close())
	}
	return box, nil
}

// BenchmarkTake is what the pool itself costs: take and give back, over
// sandboxes that cost nothing.
func BenchmarkTake(b *testing.B) {
	f := runPool(b, fake.New(), pool.Config{Concurrency: 4, Warm: 64, Slots: 256})
	f.settle(64)
	ctx := context.Background()
	for b.Loop() {
		box, err := f.Launch(ctx, job.DefaultLimits())
		if err != nil {
			b.Fatal(err)
		}
		_ = box.Close()
	}
}

// BenchmarkDockerIdle is what a job waits for when nothing else happens: take
// and run in a waiting container, or launch one and run in it.
func BenchmarkDockerIdle(b *testing.B) {
	for _, bc := range []struct {
		name string
		warm int
	}{{"warm", 2}, {"cold", -1}} {
		b.Run(bc.name, func(b *testing.B) {
			f := runPool(b, openDocker(b), pool.Config{Concurrency: 2, Warm: bc.warm})
			for range b.N {
				b.StopTimer()
				f.settle(bc.warm)
				b.StartTimer()
				box, err := serve(f)
				b.StopTimer()
				if err != nil {
					b.Fatal(err)
				}
				_ = box.Close()
			}
		})
	}
}

// BenchmarkDockerFull is the rate when jobs always wait: through the pool, and
// in a bare loop of launch, run and close. Use a -benchtime of some hundred
// times: the pool has to find its parallelism.
func BenchmarkDockerFull(b *testing.B) {
	for _, slots := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprintf("bare-%d", slots), func(b *testing.B) {
			spread(b, openDocker(b), slots)
		})
		b.Run(fmt.Sprintf("pool-%d", slots), func(b *testing.B) {
			spread(b, runPool(b, openDocker(b), pool.Config{Concurrency: slots}), slots)
		})
	}
}

// spread does b.N jobs with so many at once.
func spread(b *testing.B, l sandbox.Launcher, slots int) {
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	began := time.Now()
	var wg sync.WaitGroup
	for range slots {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				box, err := serve(l)
				if err == nil {
					err = box.Close()
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "jobs/s")
}
