package reconcile

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onBoth runs a test on a real Redis and on the embedded one.
func onBoth(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Start(t, redistest.Options{}).Client())
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Client(t, miniredis.RunT(t).Addr()))
	})
}

// fleet is a ledger and a queue in one Redis.
type fleet struct {
	rdb      redis.UniversalClient
	ledger   *ledger.Ledger
	producer *queue.Producer
}

// quick are settings under which a claim is stale after a fifth of a second. They are for tests that want claims to be lost: a
// busy machine does not keep one alive under them.
func quick() ledger.Config {
	return ledger.Config{BeatEvery: 20 * time.Millisecond, StaleAfter: 200 * time.Millisecond}
}

func newFleet(t *testing.T, rdb redis.UniversalClient, cfg ledger.Config) fleet {
	t.Helper()
	l, err := ledger.New(rdb, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p, err := queue.NewProducer(rdb, queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return fleet{rdb, l, p}
}

func (f fleet) create(t *testing.T, id string) queue.Envelope {
	t.Helper()
	j := job.Job{ID: id, Files: map[string]string{"main.py": "print(1)\n"}}.Normalize()
	e, _, err := f.ledger.Create(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return queue.Envelope{ID: id, Ahead: e.Ahead}
}

func (f fleet) submit(t *testing.T, id string) {
	t.Helper()
	if err := f.producer.Enqueue(t.Context(), f.create(t, id), job.QueueDefault); err != nil {
		t.Fatal(err)
	}
}

// reconcile runs a Reconciler until the end of the test, or until stop.
func (f fleet) reconcile(t *testing.T, cfg Config) (r *Reconciler, stop func()) {
	t.Helper()
	r, err := New(f.rdb, f.ledger, f.producer, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return r, stop
}

// quickly are settings that fit to quick. Every bounds a look as well, and how long a machine may stand still.
func quickly() Config {
	return Config{Every: 500 * time.Millisecond, Settle: 200 * time.Millisecond, QueuedGrace: 50 * time.Millisecond, QueuedRecall: 50 * time.Millisecond}
}

// worker consumes until the end of the test, or until stop.
func worker(t *testing.T, rdb redis.UniversalClient, l *ledger.Ledger, name string, run func(ctx context.Context, c ledger.Claim) error) (stop func()) {
	t.Helper()
	cfg := queue.Config{DrainGrace: 10 * time.Millisecond, KillGrace: 5 * time.Second}
	c, err := queue.NewConsumer(rdb, cfg, func(ctx context.Context, d queue.Delivery) (queue.Report, error) {
		claim, err := l.Claim(ctx, d.Envelope.ID, name)
		switch {
		case errors.Is(err, ledger.ErrTerminal) || errors.Is(err, ledger.ErrNotFound):
			return queue.Report{}, nil
		case errors.Is(err, ledger.ErrBusy):
			return queue.Report{}, queue.Transient(err, queue.ClassBusy)
		case err != nil:
			return queue.Report{}, queue.Transient(err, queue.ClassStore)
		}
		held, release := l.Hold(ctx, claim)
		defer release()
		if err := run(held, claim); err != nil {
			return queue.Report{}, err
		}
		return queue.Report{}, queue.Transient(persist(func(ctx context.Context) error {
			return l.Finish(ctx, claim.Entry.ID, claim.Fence, resultOf(claim, name))
		}), queue.ClassStore)
	}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx)
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// persist stores a result as a real worker does, over an outage of Redis.
func persist(store func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := store(ctx)
		if err == nil || errors.Is(err, ledger.ErrFenced) || errors.Is(err, ledger.ErrTerminal) || ctx.Err() != nil {
			return err
		}
		<-time.After(50 * time.Millisecond)
	}
}

func resultOf(c ledger.Claim, worker string) job.Result {
	return job.Result{Schema: job.ResultSchema, ID: c.Entry.ID, Status: job.StatusOK, Encoding: job.EncodingUTF8, Worker: worker}
}

// patience bounds what must happen in the end, also on a machine that is busy with other things.
const patience = 2 * time.Minute

func eventually(t *testing.T, within time.Duration, ok func() (bool, string)) {
	t.Helper()
	timeout := time.After(within)
	for {
		done, last := ok()
		if done {
			return
		}
		select {
		case <-timeout:
			t.Fatalf("not within %s: %s", within, last)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// lookNow makes every open job due.
func lookNow(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	for _, id := range rdb.ZRange(t.Context(), "tf:open", 0, -1).Val() {
		rdb.ZAdd(t.Context(), "tf:open", redis.Z{Score: 0, Member: id})
	}
}

func TestQueuedJobWithoutTaskIsEnqueued(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := newFleet(t, rdb, quick())
		f.create(t, "never-enqueued")
		f.submit(t, "task-lost")
		// As a flush, or a failover to a replica that was behind, would do.
		for _, key := range rdb.Keys(t.Context(), "asynq:*").Val() {
			rdb.Del(t.Context(), key)
		}
		lookNow(t, rdb)
		worker(t, rdb, f.ledger, "w", func(context.Context, ledger.Claim) error { return nil })
		f.reconcile(t, quickly())
		for _, id := range []string{"never-enqueued", "task-lost"} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			if r, err := f.ledger.Wait(ctx, id); err != nil || r.Status != job.StatusOK {
				t.Errorf("%s: status %q, error %v", id, r.Status, err)
			}
			cancel()
		}
	})
}

func TestWaitingJobsAreLeftAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := newFleet(t, rdb, quick())
		for i := range 20 {
			f.submit(t, fmt.Sprintf("job-%d", i))
		}
		cfg := quickly()
		cfg.Batch = 7
		r, stop := f.reconcile(t, cfg)
		for range 5 {
			lookNow(t, rdb)
			eventually(t, patience, func() (bool, string) {
				due := rdb.ZCount(t.Context(), "tf:open", "0", "0").Val()
				return due == 0, fmt.Sprintf("%d jobs were not looked at", due)
			})
		}
		stop()
		tasks := 0
		for _, key := range rdb.Keys(t.Context(), "asynq:*:pending").Val() {
			tasks += int(rdb.LLen(t.Context(), key).Val())
		}
		if tasks != 20 {
			t.Errorf("%d tasks, want 20", tasks)
		}
		if !r.healthy.Before(time.Now()) {
			t.Error("never healthy")
		}
	})
}

func TestJobOfALostWorkerRunsAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	f := newFleet(t, server.Client(), ledger.Config{})
	proxy := redistest.StartProxy(t, server.Addr())
	lostClient := redistest.Client(t, proxy.Addr())
	lostLedger, err := ledger.New(lostClient, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lostLedger.Close() })

	started, ended := make(chan ledger.Claim, 1), make(chan struct{})
	stopLost := worker(t, lostClient, lostLedger, "lost", func(ctx context.Context, c ledger.Claim) error {
		started <- c
		<-ended
		return nil
	})
	f.submit(t, "a")
	old := <-started
	core, log := observer.New(zap.WarnLevel)
	f.reconcile(t, Config{Log: zap.New(core).With(zap.String("worker", "alive"))}) // as a worker's log is
	worker(t, f.rdb, f.ledger, "alive", func(context.Context, ledger.Claim) error { return nil })

	// For the fleet a worker that cannot be heard of any more is as good as killed.
	proxy.Cut()
	lost := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := f.ledger.Wait(ctx, "a")
	if err != nil || r.Worker != "alive" {
		t.Fatalf("worker %q, error %v", r.Worker, err)
	}
	took := time.Since(lost)
	t.Logf("the job was run again %s after its worker was lost", took)
	// asynq alone takes 55 to 127 s. On a machine with nothing else to do it is 11 s.
	if took > 45*time.Second {
		t.Errorf("it took %s", took)
	}

	said := log.FilterMessage("a worker is gone; its job is queued again").All()
	if len(said) != 1 || said[0].ContextMap()["worker"] != "alive" || said[0].ContextMap()["lost_worker"] != "lost" {
		t.Errorf("the log says %+v, want once who noticed, and who was lost", said)
	}

	// The lost worker comes back with a result that does not count.
	proxy.Mend()
	if err := f.ledger.Finish(t.Context(), "a", old.Fence, resultOf(old, "lost")); !errors.Is(err, ledger.ErrTerminal) {
		t.Errorf("Finish of the lost worker: got %v, want ErrTerminal", err)
	}
	close(ended)
	stopLost()
	if r, err := f.ledger.Result(t.Context(), "a"); err != nil || r.Worker != "alive" {
		t.Errorf("worker %q, error %v", r.Worker, err)
	}
	if e, err := f.ledger.Get(t.Context(), "a"); err != nil || e.Lost != 1 || e.Attempts != 2 {
		t.Errorf("entry %+v, error %v", e, err)
	}
}

// After an outage of Redis the workers need a moment to renew their claims. Until then these look as if their workers were gone.
func TestOutageOfRedisLosesNoClaim(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AppendOnly: true})
	proxy := redistest.StartProxy(t, server.Addr())
	f := newFleet(t, server.Client(), ledger.Config{})
	away := newFleet(t, redistest.Client(t, proxy.Addr()), ledger.Config{BeatEvery: 100 * time.Millisecond})
	started, finish := make(chan struct{}, 2), make(chan struct{})
	worker(t, away.rdb, away.ledger, "w", func(ctx context.Context, c ledger.Claim) error {
		started <- struct{}{}
		<-finish
		return nil
	})
	f.submit(t, "a")
	<-started
	f.reconcile(t, Config{Every: 200 * time.Millisecond, Settle: patience})
	proxy.Cut()
	server.Kill()
	server.Restart()
	// The clients from before take a moment to believe that Redis is back.
	f = newFleet(t, server.Client(), ledger.Config{})
	if err := f.rdb.HSet(t.Context(), "tf:{a}", "beat", 1).Err(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		lookNow(t, f.rdb)
		eventually(t, patience, func() (bool, string) {
			due := f.rdb.ZCount(t.Context(), "tf:open", "0", "0").Val()
			return due == 0, "the job was not looked at"
		})
	}
	proxy.Mend()
	eventually(t, patience, func() (bool, string) {
		e, err := f.ledger.Get(t.Context(), "a")
		return err == nil && (e.BeatAt.Unix() > 0 || e.Lost > 0), fmt.Sprintf("%+v, error %v", e, err)
	})
	close(finish)
	r, err := f.ledger.Wait(t.Context(), "a")
	if err != nil || r.Status != job.StatusOK {
		t.Errorf("status %q, error %v", r.Status, err)
	}
	if e, err := f.ledger.Get(t.Context(), "a"); err != nil || e.Lost != 0 || e.Attempts != 1 {
		t.Errorf("the outage was taken for a lost worker: %+v, error %v", e, err)
	}
}

func TestPoisonIsQuarantined(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := newFleet(t, rdb, quick())
		f.submit(t, "a")
		f.reconcile(t, quickly())
		// Each claim is never heard of again, as if the job had killed its worker.
		var mu sync.Mutex
		claims := 0
		c, err := queue.NewConsumer(rdb, queue.Config{}, func(ctx context.Context, d queue.Delivery) (queue.Report, error) {
			if _, err := f.ledger.Claim(ctx, d.Envelope.ID, "victim"); err == nil {
				mu.Lock()
				claims++
				mu.Unlock()
			}
			return queue.Report{}, queue.Transient(errors.New("gone"), queue.ClassBusy)
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = c.Run(ctx) }()
		defer func() { cancel(); <-done }()
		r, err := f.ledger.Wait(t.Context(), "a")
		if err != nil || r.Status != job.StatusSystemError || r.Error == nil || !strings.Contains(*r.Error, "2 times") {
			t.Errorf("result %+v, error %v", r, err)
		}
		// The index follows the entry.
		eventually(t, patience, func() (bool, string) {
			dead, err := f.ledger.DeadLetters(t.Context(), ledger.DeadLetterFilter{Class: ledger.ClassPoison})
			return err == nil && len(dead) == 1, fmt.Sprintf("dead letters %+v, error %v", dead, err)
		})
		mu.Lock()
		defer mu.Unlock()
		if claims != 2 {
			t.Errorf("%d claims, want 2", claims)
		}
	})
}

func TestOnlyAsynqsKeysLackATTL(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := newFleet(t, rdb, ledger.Config{})
		worker(t, rdb, f.ledger, "w", func(_ context.Context, c ledger.Claim) error {
			if strings.HasPrefix(c.Entry.ID, "fail") && c.Attempt == 1 {
				if err := f.ledger.Release(t.Context(), c.Entry.ID, c.Fence, "engine"); err != nil {
					t.Error(err)
				}
				return queue.Transient(errors.New("down"), queue.ClassEngine)
			}
			return nil
		})
		f.reconcile(t, quickly())
		for i := range 10 {
			f.submit(t, fmt.Sprintf("job-%d", i))
			f.submit(t, fmt.Sprintf("fail-%d", i))
		}
		for i := range 10 {
			for _, name := range []string{"job", "fail"} {
				if _, err := f.ledger.Wait(t.Context(), fmt.Sprintf("%s-%d", name, i)); err != nil {
					t.Error(err)
				}
			}
		}
		// asynq keeps these for ever: its names and counters, and tasks until they are removed by its janitor.
		asynqs := regexp.MustCompile(`^asynq:(queues|servers|workers|\{[a-z]+:\d\}:(t:.*|pending|active|lease|retry|completed|archived|processed|failed))$`)
		keys := rdb.Keys(t.Context(), "*").Val()
		for _, key := range keys {
			// -1 is a key without one, -2 no key: it may have gone since it was listed.
			if ttl := rdb.PTTL(t.Context(), key).Val(); ttl == -1 && !asynqs.MatchString(key) {
				t.Errorf("%s has no TTL", key)
			}
		}
		if len(keys) < 60 {
			t.Errorf("only %d keys", len(keys))
		}
	})
}

func TestOneReconcilerWorks(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := newFleet(t, rdb, quick())
		cfg := Config{Every: 2 * time.Second} // the lock lasts four times that
		_, stop := f.reconcile(t, cfg)
		holder := func() string { return rdb.Get(t.Context(), lockKey).Val() }
		eventually(t, patience, func() (bool, string) { return holder() != "", "nobody has the lock" })
		first := holder()
		f.reconcile(t, cfg)
		for range 20 {
			if got := holder(); got != first {
				t.Fatalf("the lock changed hands: %q, then %q", first, got)
			}
			<-time.After(5 * time.Millisecond)
		}
		if ttl := rdb.PTTL(t.Context(), lockKey).Val(); ttl <= 0 {
			t.Errorf("the lock has TTL %s", ttl)
		}
		stop()
		eventually(t, patience, func() (bool, string) {
			got := holder()
			return got != "" && got != first, fmt.Sprintf("the lock is with %q", got)
		})
	})
}

func TestConfigReportsEveryFault(t *testing.T) {
	t.Parallel()
	err := Config{Every: -1, Settle: -1, QueuedGrace: -1, QueuedRecall: -1, Batch: -1}.Validate()
	for _, field := range []string{"Every", "Settle", "QueuedGrace", "QueuedRecall", "Batch"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("no fault of %s in: %v", field, err)
		}
	}
}
