package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/execra/tracefleet/internal/intake"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/redistest"
	"github.com/execra/tracefleet/internal/sandbox/fake"
)

func (f fleet) desk(t *testing.T) *intake.Desk {
	t.Helper()
	desk, err := intake.New(f.ledger, f.producer, intake.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return desk
}

func program(id, tenant, directives string) job.Job {
	j := job.Job{ID: id, Tenant: tenant, Files: map[string]string{"main.py": directives}}.Normalize()
	j.Limits.WallMS = 100
	return j
}

// One tenant's ten thousand jobs do not keep another's single job waiting, whatever the two are called.
func TestSmallTenantIsNotKeptWaiting(t *testing.T) {
	t.Parallel()
	const (
		backlog = 10_000
		singles = 100
		slots   = 4
		jobTime = 50 * time.Millisecond
	)
	f := realFleet(t)
	desk := f.desk(t)
	var group errgroup.Group
	group.SetLimit(8)
	for i := range backlog {
		group.Go(func() error {
			_, _, err := desk.Submit(t.Context(), program(fmt.Sprintf("big-%05d", i), "big", ""))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	var starts atomic.Int64
	var order sync.Map // what starts was when a job started
	consumer, err := queue.NewConsumer(f.rdb, queue.Config{Concurrency: slots}, func(ctx context.Context, d queue.Delivery) (queue.Report, error) {
		order.Store(d.Envelope.ID, starts.Add(1))
		c, err := f.ledger.Claim(ctx, d.Envelope.ID, "w")
		if err != nil {
			return queue.Report{}, err
		}
		<-time.After(jobTime)
		return queue.Report{}, f.ledger.Finish(ctx, d.Envelope.ID, c.Fence, resultOf(c, "w"))
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = consumer.Run(ctx) }()
	defer func() { cancel(); <-done }()

	// Counted in jobs that go before, not in time, as all of them are slow on a busy machine.
	waits := make([]int64, 0, singles)
	for i := range singles {
		id := fmt.Sprintf("small-%d", i)
		if _, _, err := desk.Submit(t.Context(), program(id, "small", "")); err != nil {
			t.Fatal(err)
		}
		submitted := starts.Load()
		f.awaitStatus(t, id, job.StatusOK)
		started, ok := order.Load(id)
		if !ok {
			t.Fatalf("%s was not delivered", id)
		}
		waits = append(waits, max(0, started.(int64)-submitted-1))
	}
	counts, err := f.ledger.Counts(t.Context(), nil)
	if err != nil || counts.Open[job.QueueDefault] < backlog/2 {
		t.Fatalf("%d jobs are open, error %v: the backlog is gone, the test shows nothing", counts.Open[job.QueueDefault], err)
	}
	slices.Sort(waits)
	p50, most := waits[singles/2], waits[singles-1]
	t.Logf("jobs that went before those of the small tenant: p50 %d, most %d, with %d slots", p50, most, slots)
	if most > 10*slots {
		t.Errorf("%d jobs went before, more than ten for each slot", most)
	}
}

// rolling runs jobs while all workers are restarted in turn, and returns what the engine was given.
func rolling(t *testing.T, f fleet, jobs int, cfg queue.Config) *fake.Launcher {
	t.Helper()
	const workers = 3
	launcher := fake.New()
	desk := f.desk(t)
	ctx, end := context.WithCancel(t.Context())
	restarted := make(chan int, 1)
	go func() {
		stops := make([]func(), workers)
		for i := range stops {
			stops[i] = f.serve(t, launcher, cfg)
		}
		n := 0
		for ; ctx.Err() == nil; n++ {
			stops[n%workers]()
			stops[n%workers] = f.serve(t, launcher, cfg)
		}
		var wg sync.WaitGroup
		for _, stop := range stops {
			wg.Go(stop)
		}
		wg.Wait()
		restarted <- n
	}()
	for i := range jobs {
		if _, _, err := desk.Submit(t.Context(), program(fmt.Sprintf("job-%03d", i), "", "#: stdout \"x\"\n#: hang\n")); err != nil {
			t.Error(err)
		}
	}
	for i := range jobs {
		f.awaitStatus(t, fmt.Sprintf("job-%03d", i), job.StatusTimeLimit)
	}
	end()
	t.Logf("%d restarts, %d runs of %d jobs", <-restarted, len(launcher.Jobs()), jobs)
	return launcher
}

func (f fleet) wantOneAttemptEach(t *testing.T, jobs int) {
	t.Helper()
	for i := range jobs {
		id := fmt.Sprintf("job-%03d", i)
		e, err := f.ledger.Get(t.Context(), id)
		if err != nil || e.State != ledger.StateFinished || e.Attempts != 1 || e.Lost != 0 {
			t.Errorf("%s: %+v, error %v", id, e, err)
		}
	}
	if dead := f.dead(t); len(dead) != 0 {
		t.Errorf("dead letters: %v", dead)
	}
}

func TestRollingRestartRepeatsNothing(t *testing.T) {
	t.Parallel()
	f := realFleet(t)
	const jobs = 150
	launcher := rolling(t, f, jobs, queue.Config{Concurrency: 2, DrainGrace: 20 * time.Second})
	if n := len(launcher.Jobs()); n != jobs {
		t.Errorf("%d runs, want %d", n, jobs)
	}
	f.wantOneAttemptEach(t, jobs)
}

func TestRestartWithoutGraceLosesNothing(t *testing.T) {
	t.Parallel()
	f := realFleet(t)
	const jobs = 60
	launcher := rolling(t, f, jobs, queue.Config{Concurrency: 2, DrainGrace: 30 * time.Millisecond, KillGrace: 10 * time.Second})
	if n := len(launcher.Jobs()); n <= jobs {
		t.Errorf("%d runs: nothing was interrupted, the test shows nothing", n)
	}
	f.wantOneAttemptEach(t, jobs)
	if n, err := launcher.Remaining(t.Context()); n != 0 || err != nil {
		t.Errorf("%d sandboxes are left, error %v", n, err)
	}
}

func TestCancelIsFinal(t *testing.T) {
	t.Parallel()
	// The heartbeat is an hour away, so that the wish can only come by message.
	f := newFleet(t, redistest.Start(t, redistest.Options{}).Client(), ledger.Config{BeatEvery: time.Hour, StaleAfter: 3 * time.Hour})
	desk := f.desk(t)
	submit := func(id, directives string) {
		t.Helper()
		j := program(id, "", directives)
		j.Limits.WallMS = 60_000
		if _, _, err := desk.Submit(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	cancel := func(id string, want ledger.State) {
		t.Helper()
		if got, err := desk.Cancel(t.Context(), id); got != want || err != nil {
			t.Errorf("Cancel(%s): %q, error %v, want %q", id, got, err, want)
		}
	}
	submit("queued", "")
	cancel("queued", ledger.StateCanceled)
	cancel("queued", ledger.StateCanceled)
	if n := f.rdb.Exists(t.Context(), "asynq:{"+shardOf+"}:t:queued").Val(); n != 0 {
		t.Error("the task of a canceled job is still in the queue")
	}
	launcher := fake.New()
	started := make(chan struct{}, 1)
	launcher.Script(fake.Step{Started: started, Release: make(chan struct{})})
	f.serve(t, launcher, queue.Config{})
	submit("running", "")
	<-started
	begin := time.Now()
	cancel("running", ledger.StateRunning)
	f.awaitStatus(t, "running", job.StatusCanceled)
	t.Logf("a running job was canceled in %s", time.Since(begin))
	submit("finished", "")
	f.awaitStatus(t, "finished", job.StatusOK)
	cancel("finished", ledger.StateFinished)

	// None of them is ever tried again: the queue has it as done, at its first attempt.
	eventually(t, patience, func() (bool, string) {
		info, err := f.inspector().GetTaskInfo(shardOf, "running")
		return err == nil && info.State.String() == "completed" && info.Retried == 0, fmt.Sprint(info, err)
	})
	for id, want := range map[string]ledger.State{
		"queued": ledger.StateCanceled, "running": ledger.StateCanceled, "finished": ledger.StateFinished,
	} {
		if e, err := f.ledger.Get(t.Context(), id); err != nil || e.State != want {
			t.Errorf("%s: %q, error %v, want %q", id, e.State, err, want)
		}
	}
	if n := len(launcher.Jobs()); n != 2 {
		t.Errorf("%d runs, want 2", n)
	}
}
