package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/redistest"
)

// Each test here is about one fault of asynq v0.26.0. Those with a control show that asynq
// still has the fault: when a control fails after an upgrade, the remedy can go.

func allRemedies() *remedies {
	return &remedies{uncancel: true, backOff: true, wake: true, forward: true, scout: true}
}

// asynq tries to acknowledge a finished task again every 5 s.
const syncInterval = 5 * time.Second

func TestOutageAtTheEndOfATask(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, on *remedies) (r *running, server *redistest.Server, runs *calls) {
		server = redistest.Start(t, redistest.Options{})
		proxy := redistest.StartProxy(t, server.Addr())
		mustEnqueue(t, newProducer(t, server.Client(), Config{}), "a")
		runs = &calls{}
		cut := make(chan struct{})
		r = consume(t, redistest.Client(t, proxy.Addr()), Config{}, on, func(_ context.Context, d Delivery) (Report, error) {
			if runs.add(d) == 1 {
				proxy.Cut()
				close(cut)
			}
			return Report{Status: job.StatusOK, Headline: "it ended well"}, nil
		})
		<-cut
		// Long enough for the client to give up on its own retries, shorter than asynq's first repetition.
		throughout(t, 3*time.Second, func() (bool, string) {
			return stateOf(t, server.Client(), "a") == "active", "acknowledged over a cut line"
		})
		proxy.Mend()
		return r, server, runs
	}
	t.Run("remedy", func(t *testing.T) {
		t.Parallel()
		_, server, runs := run(t, allRemedies())
		awaitState(t, server.Client(), "a", "completed", patience)
		if n := len(runs.all()); n != 1 {
			t.Errorf("the handler ran %d times", n)
		}
		if got := infoOf(t, server.Client(), "a").Result; !strings.Contains(string(got), "it ended well") {
			t.Errorf("asynqmon shows %q of the task, want its report", got)
		}
	})
	t.Run("control", func(t *testing.T) {
		t.Parallel()
		// A busy machine may come to the first acknowledgement only when the way is mended. It gets another chance.
		for try := 1; ; try++ {
			_, server, _ := run(t, &remedies{backOff: true, wake: true})
			held, last := lasts(2*syncInterval, func() (bool, string) {
				s := stateOf(t, server.Client(), "a")
				return s == "active", fmt.Sprintf("asynq acknowledged the task by itself: it is %q", s)
			})
			if held {
				return
			}
			if try == 4 {
				t.Fatal(last)
			}
		}
	})
}

func TestFullRedisIsNotAskedWithoutPause(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		on   *remedies
		good func(perSecond float64) bool
	}{
		"remedy":  {allRemedies(), func(n float64) bool { return n < 50 }},
		"control": {&remedies{uncancel: true, wake: true}, func(n float64) bool { return n > 100 }}, // thousands, where nothing else runs
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, redistest.Options{MaxMemoryBytes: 1}).Client()
			consume(t, rdb, Config{}, tt.on, func(context.Context, Delivery) (Report, error) { return Report{}, nil })
			eventually(t, patience, func() (bool, string) { n := evals(t, rdb); return n > 0, "no dequeue" })
			if n := evalRate(t, rdb, 2*time.Second); !tt.good(n) {
				t.Errorf("%.1f scripts a second", n)
			}
		})
	}
}

// pickUp is the time from Enqueue to the handler of an idle worker, n times, the shortest first.
func pickUp(t testing.TB, on *remedies, n int) []time.Duration {
	server := redistest.Start(t, redistest.Options{})
	p := newProducer(t, server.Client(), Config{})
	got := make(chan time.Time, 1)
	consume(t, server.Client(), Config{}, on, func(context.Context, Delivery) (Report, error) {
		got <- time.Now()
		return Report{}, nil
	})
	mustEnqueue(t, p, "warm-up")
	<-got
	took := make([]time.Duration, 0, n)
	for i := range n {
		// The worker has found its queues empty when it waits, or sleeps.
		<-time.After(20 * time.Millisecond)
		start := time.Now()
		mustEnqueue(t, p, fmt.Sprintf("job-%d", i))
		took = append(took, (<-got).Sub(start))
	}
	slices.Sort(took)
	return took
}

func TestIdleWorkerIsWoken(t *testing.T) {
	t.Parallel()
	const soon = pollEvery / 10
	if slowest := pickUp(t, &remedies{uncancel: true, backOff: true}, 5)[4]; slowest < soon {
		t.Errorf("a polling worker picks a job up in %s: asynq does not poll any more", slowest)
	}
	// A busy machine gets more than one chance. A worker that polls is slow each time.
	for start := time.Now(); ; {
		median := pickUp(t, allRemedies(), 21)[10]
		t.Logf("median pick-up: %s", median)
		if median < soon {
			return
		}
		if time.Since(start) > patience {
			t.Fatalf("an idle worker picks a job up in %s: nobody woke it", median)
		}
	}
}

func TestIdleWorkerAsksOnceASecond(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	consume(t, rdb, Config{}, nil, func(context.Context, Delivery) (Report, error) { return Report{}, nil })
	eventually(t, patience, func() (bool, string) { n := evals(t, rdb); return n > 24, "no dequeue" })
	// 12 queues once a second, and asynq's janitor and heartbeat besides. The forwarder alone would be 24 a second.
	if n := evalRate(t, rdb, 3*time.Second); n > 20 {
		t.Errorf("%.1f scripts a second", n)
	}
}

func BenchmarkIdlePickUp(b *testing.B) {
	median := pickUp(b, allRemedies(), 51)[25]
	for b.Loop() {
		// The measurement is above; it cannot be repeated without pauses.
	}
	b.ReportMetric(float64(median.Microseconds()), "us/pick-up")
}

func TestSlotsAreNeverOverdrawn(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	// asynq gives up on each task after a second and takes its slot for free.
	cfg := Config{Concurrency: 2, TaskTimeout: time.Second}
	p := newProducer(t, rdb, cfg)
	for i := range 8 {
		mustEnqueue(t, p, fmt.Sprintf("job-%d", i))
	}
	var now, most atomic.Int32
	release := make(chan struct{})
	r := consume(t, rdb, cfg, nil, func(ctx context.Context, d Delivery) (Report, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-release
		return Report{}, nil
	})
	end := sync.OnceFunc(func() { close(release) })
	t.Cleanup(end) // before the consumer is stopped
	inRetry := func() int64 {
		return rdb.ZCard(t.Context(), "asynq:{"+defaultShard(t)+"}:retry").Val()
	}
	eventually(t, patience, func() (bool, string) { return inRetry() >= 2, "asynq has not given up on a task" })
	throughout(t, 4*time.Second, func() (bool, string) {
		return most.Load() <= 2, fmt.Sprintf("%d handlers at once with 2 slots", most.Load())
	})
	if n := most.Load(); n != 2 {
		t.Errorf("%d handlers at once, want 2", n)
	}
	end()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

func TestHandlerOutlivesAsynqsInterest(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	cfg := Config{TaskTimeout: time.Second}
	mustEnqueue(t, newProducer(t, rdb, cfg), "a")
	ended := make(chan error, 8)
	release := make(chan struct{})
	consume(t, rdb, cfg, nil, func(ctx context.Context, d Delivery) (Report, error) {
		<-release
		ended <- ctx.Err()
		return Report{}, nil
	})
	eventually(t, patience, func() (bool, string) {
		info := infoOf(t, rdb, "a")
		return info != nil && info.LastErr == context.DeadlineExceeded.Error() && info.Retried == 0, fmt.Sprintf("%+v", info)
	})
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("the handler's context ended with asynq's: %v", err)
	}
	awaitState(t, rdb, "a", "completed", patience)
}

func TestDrainIsNoAttemptAndNoOverlap(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	cfg := Config{DrainGrace: 50 * time.Millisecond, MaxRetry: 1}
	mustEnqueue(t, newProducer(t, rdb, cfg), "a")
	var inHandler, overlap atomic.Int32
	started, second := make(chan struct{}, 1), make(chan Delivery, 1)
	enter := func() func() {
		if inHandler.Add(1) > 1 {
			overlap.Add(1)
		}
		return func() { inHandler.Add(-1) }
	}
	old := consume(t, rdb, cfg, nil, func(ctx context.Context, d Delivery) (Report, error) {
		defer enter()()
		started <- struct{}{}
		<-ctx.Done()
		cause := context.Cause(ctx)
		<-time.After(time.Second) // the sandbox takes its time to die
		return Report{}, Draining(cause)
	})
	<-started
	consume(t, rdb, cfg, nil, func(ctx context.Context, d Delivery) (Report, error) {
		defer enter()()
		second <- d
		return Report{}, nil
	})
	if err := old.stop(); err != nil {
		t.Error(err)
	}
	d := <-second
	if d.Retried != 0 || d.LastAttempt {
		t.Errorf("the drain counted as an attempt: %+v", d)
	}
	if overlap.Load() != 0 {
		t.Error("two handlers had the job at once")
	}
	awaitState(t, rdb, "a", "completed", patience)
}

func TestDrainAtTheLastAttemptArchivesNothing(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	cfg := Config{MaxRetry: 1}
	mustEnqueue(t, newProducer(t, rdb, cfg), "a")
	var got calls
	consume(t, rdb, cfg, nil, func(ctx context.Context, d Delivery) (Report, error) {
		switch got.add(d) {
		case 1:
			return Report{}, Transient(errors.New("down"), ClassEngine)
		case 2, 3:
			return Report{}, Draining(ErrDraining)
		default:
			return Report{Status: job.StatusOK}, nil
		}
	})
	awaitState(t, rdb, "a", "completed", patience)
	var last []bool
	for _, d := range got.all() {
		last = append(last, d.LastAttempt)
	}
	if fmt.Sprint(last) != "[false true true true]" {
		t.Errorf("last attempts: %v", last)
	}
}

func TestStuckHandlerIsReported(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	cfg := Config{DrainGrace: time.Millisecond, KillGrace: 50 * time.Millisecond}
	mustEnqueue(t, newProducer(t, rdb, cfg), "a")
	started, release := make(chan struct{}), make(chan struct{})
	ended := make(chan struct{})
	r := consume(t, rdb, cfg, nil, func(context.Context, Delivery) (Report, error) {
		defer close(ended)
		close(started)
		<-release
		return Report{}, nil
	})
	<-started
	if err := r.stop(); err == nil {
		t.Error("Run says nothing of the handler that did not end")
	}
	close(release)
	<-ended
}

func TestHurryEndsTheGrace(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	cfg := Config{DrainGrace: time.Hour}
	mustEnqueue(t, newProducer(t, rdb, cfg), "a")
	started := make(chan struct{})
	r := consume(t, rdb, cfg, nil, func(ctx context.Context, _ Delivery) (Report, error) {
		close(started)
		<-ctx.Done()
		return Report{}, Draining(context.Cause(ctx))
	})
	<-started
	r.cancel()
	r.Hurry()
	r.Hurry()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

func TestRedisRestartsUnderTheWorker(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AppendOnly: true})
	rdb := server.Client()
	p := newProducer(t, rdb, Config{})
	var got calls
	consume(t, rdb, Config{}, nil, func(_ context.Context, d Delivery) (Report, error) {
		got.add(d)
		return Report{}, nil
	})
	mustEnqueue(t, p, "before")
	awaitState(t, rdb, "before", "completed", patience)
	server.Kill()
	server.Restart()
	mustEnqueue(t, p, "after")
	awaitState(t, rdb, "after", "completed", patience)
	if n := len(got.all()); n != 2 {
		t.Errorf("%d deliveries, want 2", n)
	}
}

func TestQueuesAreListedAgain(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	mustEnqueue(t, newProducer(t, rdb, Config{}), "a")
	rdb.Del(t.Context(), "asynq:queues")
	consume(t, rdb, Config{}, nil, func(context.Context, Delivery) (Report, error) { return Report{}, nil })
	eventually(t, patience, func() (bool, string) {
		n := rdb.SCard(t.Context(), "asynq:queues").Val()
		return n == int64(DefaultShards*len(job.Queues())), fmt.Sprintf("%d queues are listed", n)
	})
}
