package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/deadletter"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/redistest"
	"github.com/execra/tracefleet/internal/runner"
	"github.com/execra/tracefleet/internal/sandbox/fake"
)

// shardOf is where the first jobs of a tenant go.
const shardOf = "default:0"

// sweep starts a Sweeper that works ten times a second.
func (f fleet) sweep(t *testing.T, cfg SweepConfig) *Sweeper {
	t.Helper()
	cfg.Every, cfg.AuditEvery = 100*time.Millisecond, 100*time.Millisecond
	s, err := NewSweeper(f.rdb, f.ledger, f.producer, queue.NewAuditor(f.producer), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

// serve runs real Runners over a scripted engine, until the end of the test or until stop.
func (f fleet) serve(t *testing.T, launcher *fake.Launcher, cfg queue.Config) (stop func()) {
	t.Helper()
	r, err := runner.New(f.ledger, launcher, runner.Config{Worker: "w"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := queue.NewConsumer(f.rdb, cfg, r.Handle, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func (f fleet) archived(t *testing.T) map[string]bool {
	t.Helper()
	ids := map[string]bool{}
	for _, id := range f.rdb.ZRange(t.Context(), "asynq:{"+shardOf+"}:archived", 0, -1).Val() {
		ids[id] = true
	}
	return ids
}

func (f fleet) dead(t *testing.T) map[string]string {
	t.Helper()
	classes := map[string]string{}
	for e, err := range f.ledger.EachDeadLetter(t.Context(), ledger.DeadLetterFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		classes[e.ID] = e.Class
	}
	return classes
}

// bury makes a job a dead letter as a worker does whose engine is broken.
func (f fleet) bury(t *testing.T, ids ...string) {
	t.Helper()
	launcher := fake.New()
	for range ids {
		launcher.FailLaunches(errors.New("broken"), errors.New("broken"))
	}
	stop := f.serve(t, launcher, queue.Config{MaxRetry: 1})
	for _, id := range ids {
		f.submit(t, id)
	}
	for _, id := range ids {
		eventually(t, patience, func() (bool, string) {
			return f.dead(t)[id] == "engine" && f.archived(t)[id], fmt.Sprintf("%v, %v", f.dead(t), f.archived(t))
		})
	}
	stop()
}

func (f fleet) awaitStatus(t *testing.T, id string, want job.Status) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if r, err := f.ledger.Wait(ctx, id); err != nil || r.Status != want {
		t.Errorf("%s: status %q, error %v, want %s", id, r.Status, err, want)
	}
}

func (f fleet) inspector() *asynq.Inspector { return asynq.NewInspectorFromRedisClient(f.rdb) }

func realFleet(t *testing.T) fleet {
	t.Helper()
	return newFleet(t, redistest.Start(t, redistest.Options{}).Client(), ledger.Config{})
}

func TestArchivedSuccessIsRemoved(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := newFleet(t, rdb, ledger.Config{})
		stop := f.serve(t, fake.New(), queue.Config{})
		f.submit(t, "a")
		f.awaitStatus(t, "a", job.StatusOK)
		stop()
		// asynq archives the task of a finished job when its acknowledgement is lost at the last attempt.
		prefix := "asynq:{" + shardOf + "}:"
		rdb.ZRem(t.Context(), prefix+"completed", "a")
		rdb.HSet(t.Context(), prefix+"t:a", "state", "archived")
		rdb.ZAdd(t.Context(), prefix+"archived", redis.Z{Score: float64(time.Now().Unix()), Member: "a"})
		f.sweep(t, SweepConfig{})
		eventually(t, patience, func() (bool, string) { return len(f.archived(t)) == 0, "the success is still archived" })
		if len(f.dead(t)) != 0 {
			t.Errorf("dead letters: %v", f.dead(t))
		}
		f.awaitStatus(t, "a", job.StatusOK)
	})
}

func TestTaskArchivedByAnOperator(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := newFleet(t, rdb, ledger.Config{})
		f.submit(t, "a")
		<-time.After(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // asynq counts seconds
		if err := f.inspector().ArchiveTask(shardOf, "a"); err != nil {
			t.Fatal(err)
		}
		f.sweep(t, SweepConfig{})
		f.awaitStatus(t, "a", job.StatusSystemError)
		eventually(t, patience, func() (bool, string) {
			return f.dead(t)["a"] == ledger.ClassArchived && f.archived(t)["a"], fmt.Sprintf("%v, %v", f.dead(t), f.archived(t))
		})
		// And run again from there.
		if err := f.inspector().RunTask(shardOf, "a"); err != nil {
			t.Fatal(err)
		}
		f.serve(t, fake.New(), queue.Config{})
		eventually(t, patience, func() (bool, string) {
			r, err := f.ledger.Result(t.Context(), "a")
			return err == nil && r.Status == job.StatusOK, fmt.Sprint(r.Status, err)
		})
		if len(f.dead(t)) != 0 {
			t.Errorf("dead letters: %v", f.dead(t))
		}
	})
}

func TestDeadLetterRunFromTheQueuesPages(t *testing.T) {
	t.Parallel()
	f := realFleet(t)
	s := f.sweep(t, SweepConfig{})
	f.bury(t, "a")
	eventually(t, patience, func() (bool, string) {
		return f.rdb.HGet(t.Context(), "tf:{a}", "shelved").Val() == "1", "the sweeper has not seen the task"
	})
	if err := f.inspector().RunTask(shardOf, "a"); err != nil {
		t.Fatal(err)
	}
	f.serve(t, fake.New(), queue.Config{})
	eventually(t, patience, func() (bool, string) {
		r, err := f.ledger.Result(t.Context(), "a")
		return err == nil && r.Status == job.StatusOK, fmt.Sprint(r.Status, err)
	})
	e, err := f.ledger.Get(t.Context(), "a")
	if err != nil || e.Requeues != 1 || e.Attempts != 1 || len(f.dead(t)) != 0 {
		t.Errorf("entry %+v, error %v, dead letters %v", e, err, f.dead(t))
	}
	if n := testutil.ToFloat64(s.cfg.Metrics.repairs.WithLabelValues(repairDismissed)); n != 0 {
		t.Errorf("%v dead letters were dismissed", n)
	}
}

func TestDeadLetterDeletedFromTheQueuesPages(t *testing.T) {
	t.Parallel()
	f := realFleet(t)
	f.sweep(t, SweepConfig{})
	f.bury(t, "a", "b")
	eventually(t, patience, func() (bool, string) {
		return f.rdb.HGet(t.Context(), "tf:{a}", "shelved").Val() == "1", "the sweeper has not seen the task"
	})
	if err := f.inspector().DeleteTask(shardOf, "a"); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, func() (bool, string) {
		dead := f.dead(t)
		return len(dead) == 1 && dead["b"] != "", fmt.Sprint(dead)
	})
	f.awaitStatus(t, "a", job.StatusSystemError) // its result stays
}

func TestRequeueIsNoDeletion(t *testing.T) {
	t.Parallel()
	f := realFleet(t)
	f.sweep(t, SweepConfig{})
	f.bury(t, "a", "b", "c")
	office := deadletter.New(f.ledger, f.producer)
	if err := office.Requeue(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := office.Purge(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if err := office.Requeue(t.Context(), "b"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("after a purge: %v", err)
	}
	if err := office.Requeue(t.Context(), "a"); !errors.Is(err, ledger.ErrNotDead) {
		t.Errorf("a second time: %v", err)
	}
	f.serve(t, fake.New(), queue.Config{})
	f.awaitStatus(t, "a", job.StatusOK)
	eventually(t, patience, func() (bool, string) {
		dead, archived := f.dead(t), f.archived(t)
		return len(dead) == 1 && dead["c"] != "" && len(archived) == 1 && archived["c"], fmt.Sprint(dead, archived)
	})
	history, err := f.ledger.History(t.Context(), "a")
	if err != nil || len(history) != 4 || history[2].Class != ledger.ClassRequeued {
		t.Errorf("history %+v, error %v", history, err)
	}
}

func TestLargeArchiveIsTrimmed(t *testing.T) {
	t.Parallel()
	f := realFleet(t)
	const n, most = 30, 10
	for i := range n {
		id := fmt.Sprintf("job-%02d", i)
		f.submit(t, id)
		if err := f.ledger.Condemn(t.Context(), id, "engine", "it broke"); err != nil {
			t.Fatal(err)
		}
	}
	f.serve(t, fake.New(), queue.Config{}) // archives the tasks of dead letters
	f.sweep(t, SweepConfig{MaxArchive: most})
	archived := func() (total int) {
		for _, shard := range f.producer.ShardNames() {
			size, err := f.producer.ArchiveSize(t.Context(), shard)
			if err != nil {
				t.Fatal(err)
			}
			if size > most {
				return n
			}
			total += int(size)
		}
		return total
	}
	pending := func() (total int64) {
		depths, err := f.producer.Depths(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range depths {
			total += d.Tasks["pending"] + d.Tasks["active"]
		}
		return total
	}
	eventually(t, patience, func() (bool, string) {
		return pending() == 0 && archived() == most, fmt.Sprintf("%d wait, %d archived", pending(), archived())
	})
	if dead := f.dead(t); len(dead) != n {
		t.Errorf("%d dead letters, want %d", len(dead), n)
	}
	// What was trimmed is not taken for deleted, nor brought back.
	for range 5 {
		<-time.After(100 * time.Millisecond)
		if len(f.dead(t)) != n || archived() != most {
			t.Fatalf("%d dead letters, %d archived", len(f.dead(t)), archived())
		}
	}
}

func TestStraysAreRescued(t *testing.T) {
	t.Parallel()
	f := realFleet(t)
	stop := f.serve(t, fake.New(), queue.Config{})
	f.submit(t, "finished")
	f.awaitStatus(t, "finished", job.StatusOK)
	stop()
	ctx, prefix := t.Context(), "asynq:{"+shardOf+"}:"
	f.submit(t, "queued")
	for _, id := range []string{"finished", "queued"} {
		// As after a restore from a backup: active, in the list, and without a lease.
		f.rdb.LRem(ctx, prefix+"pending", 0, id)
		f.rdb.ZRem(ctx, prefix+"completed", id)
		f.rdb.HSet(ctx, prefix+"t:"+id, "state", "active")
		f.rdb.LPush(ctx, prefix+"active", id)
	}
	f.sweep(t, SweepConfig{})
	f.serve(t, fake.New(), queue.Config{})
	f.awaitStatus(t, "queued", job.StatusOK)
	eventually(t, patience, func() (bool, string) {
		n := f.rdb.Exists(ctx, prefix+"t:finished").Val() + f.rdb.LLen(ctx, prefix+"active").Val()
		return n == 0, fmt.Sprintf("%d things are left of the finished task", n)
	})
}

func TestPoisonIsArchivedToo(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.Start(t, redistest.Options{}).Client(), quick())
	f.submit(t, "a")
	f.reconcile(t, quickly())
	c, err := queue.NewConsumer(f.rdb, queue.Config{}, func(ctx context.Context, d queue.Delivery) (queue.Report, error) {
		if _, err := f.ledger.Claim(ctx, d.Envelope.ID, "victim"); errors.Is(err, ledger.ErrDead) {
			return queue.Report{}, queue.Permanent(err)
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
	eventually(t, patience, func() (bool, string) {
		return f.dead(t)["a"] == ledger.ClassPoison && f.archived(t)["a"], fmt.Sprintf("%v, %v", f.dead(t), f.archived(t))
	})
	history, err := f.ledger.History(ctx, "a")
	lost := 0
	for _, a := range history {
		if a.Worker == "victim" && a.Class == ledger.ClassLost {
			lost++
		}
	}
	// The ledger makes an attempt of its own of the burial, and another when it was interrupted.
	if err != nil || lost != 2 || history[len(history)-1].Class != ledger.ClassPoison {
		t.Errorf("history %+v, error %v, want two losses and the end", history, err)
	}
}

func TestSweepConfigReportsEveryFault(t *testing.T) {
	t.Parallel()
	if err := (SweepConfig{Every: -1, AuditEvery: 1, MaxArchive: 5000}).Validate(); err == nil {
		t.Error("no fault was found")
	}
}
