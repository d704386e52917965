package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/intake"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/redistest"
)

// The size of the fleet.
const (
	seats     = 3
	maxMemory = 512 << 20
)

// controller breaks the fleet.
type controller struct {
	t      *testing.T
	ctx    context.Context
	random *rand.Rand
	began  time.Time

	fleet     string
	engine    *engine
	redis     *redistest.Server
	rdb       redis.UniversalClient // straight to Redis
	book      *ledger.Ledger
	seats     []*seat
	submitter *submitter
	listener  *listener
	// start is the largest load of a worker that had nothing to do yet.
	start load
}

// TestChaos breaks a fleet while it works on a mix of jobs, and then wants every job to have ended once, as its
// program deserves, and nothing to be left.
func TestChaos(t *testing.T) {
	c := newController(t)
	c.say("seed %d: %d jobs, %d workers, %d rounds of %d faults", *seed, *jobs, seats, *rounds, len(faults()))
	c.measureStart()
	// The jobs draw from numbers of their own, so that a seed means the same faults for any number of jobs.
	tasks := mix(rand.New(rand.NewPCG(*seed, 1)), *jobs)
	var work sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer work.Wait()
	defer stop()
	work.Go(func() { c.listener.run(ctx, c.rdb) })
	submitted := make(chan struct{})
	work.Go(func() {
		defer close(submitted)
		c.submitter.run(ctx, tasks)
	})
	c.breakThings()
	c.grant(*jobs)
	<-submitted
	c.awaitEnds()
	c.awaitRest()
	c.stopWorkers()
	c.examine()
}

func newController(t *testing.T) *controller {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &controller{
		t: t, ctx: ctx, random: rand.New(rand.NewPCG(*seed, 0)), began: time.Now(), fleet: fmt.Sprintf("chaos-%d-%d", *seed, os.Getpid()),
		engine: startEngine(t), redis: redistest.Start(t, redistest.Options{AppendOnly: true, MaxMemoryBytes: maxMemory}),
		listener: &listener{ended: map[string]int{}},
	}
	c.rdb = c.redis.Client()
	var err error
	if c.book, err = ledger.New(c.rdb, ledger.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.book.Close() })
	producer, err := queue.NewProducer(c.rdb, queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	desk, err := intake.New(c.book, producer, intake.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c.submitter = &submitter{desk: desk, quota: make(chan struct{}, *jobs)} // granted before they are used
	c.seatWorkers(ctx, cancel)
	return c
}

// seatWorkers starts the workers, and ends them with the test if nobody did before.
func (c *controller) seatWorkers(ctx context.Context, cancel context.CancelFunc) {
	c.t.Helper()
	// Several scrapes must not look like a leak of the worker's.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var kept sync.WaitGroup
	for place := range seats {
		s := &seat{
			t: c.t, fleet: c.fleet, place: place, env: []string{"DOCKER_HOST=" + c.engine.host()},
			way: redistest.StartProxy(c.t, c.redis.Addr()), http: client, closed: make(chan struct{}),
		}
		c.seats = append(c.seats, s)
		kept.Go(func() { s.keep(ctx) })
	}
	c.t.Cleanup(func() {
		cancel()
		for _, s := range c.seats {
			if w := s.current(); w != nil {
				_ = w.signal(syscall.SIGCONT)
				_ = w.signal(syscall.SIGKILL) // one that has ended is left alone
			}
		}
		kept.Wait()
		c.keepLogs()
	})
	for _, s := range c.seats {
		started, _ := until(c.t, patience, 10*time.Millisecond, func(context.Context) (bool, string) { return s.current() != nil, "" })
		if started {
			s.awaitReady()
		}
	}
}

// keepLogs writes what all workers said into a folder, for whoever looks for the reason of a failure.
func (c *controller) keepLogs() {
	if !c.t.Failed() {
		return
	}
	folder, err := os.MkdirTemp("", fmt.Sprintf("chaos-logs-%d-", *seed))
	if err != nil {
		c.t.Error(err)
		return
	}
	for _, s := range c.seats {
		for i, w := range s.past {
			name := filepath.Join(folder, fmt.Sprintf("%d-%02d-%s.log", s.place, i, w.name))
			if err := os.WriteFile(name, []byte(w.log.String()), 0o600); err != nil {
				c.t.Error(err)
			}
		}
	}
	c.t.Logf("the logs of the workers are in %s", folder)
}

// say tells what happens, with the time since the start.
func (c *controller) say(format string, args ...any) {
	c.t.Helper()
	c.t.Logf("%7.1fs  %s", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// check fails the test when the controller itself does not get on.
func (c *controller) check(err error) {
	c.t.Helper()
	if err != nil && c.ctx.Err() == nil {
		c.t.Errorf("the controller failed: %v", err)
	}
}

// grant lets so many more jobs be submitted.
func (c *controller) grant(n int) {
	for range n {
		select {
		case c.submitter.quota <- struct{}{}:
		default:
			return // all there will ever be
		}
	}
}

// measureStart measures the workers before they have anything to do.
func (c *controller) measureStart() {
	c.t.Helper()
	for _, s := range c.seats {
		calm, state := until(c.t, patience, 200*time.Millisecond, func(ctx context.Context) (bool, string) {
			l, err := s.measure(ctx)
			c.start.goroutines = max(c.start.goroutines, l.goroutines)
			c.start.residentBytes = max(c.start.residentBytes, l.residentBytes)
			return err == nil && l.warm >= slotsEach, fmt.Sprint(l, err)
		})
		if !calm {
			c.t.Errorf("place %d has no warm sandboxes: %s", s.place, state)
		}
	}
}

// breakThings has every fault happen, in a random order, as often as was asked for. Jobs come all the while.
func (c *controller) breakThings() {
	var plan []fault
	lasts := time.Duration(0)
	for range *rounds {
		round := faults()
		c.random.Shuffle(len(round), func(i, k int) { round[i], round[k] = round[k], round[i] })
		for _, f := range round {
			if *only == "" || *only == f.name {
				plan = append(plan, f)
				lasts += f.lasts + settleTime
			}
		}
	}
	ctx, stop := context.WithCancel(c.ctx)
	var dripping sync.WaitGroup
	dripping.Go(func() { c.drip(ctx, lasts/time.Duration(*jobs)) })
	for _, f := range plan {
		c.say("%s", f.name)
		what := f.do(c)
		c.say("%s: %s", f.name, what)
		c.settle(c.ctx)
	}
	stop()
	dripping.Wait()
	c.say("the faults are over; %d of %d jobs are accepted", len(c.submitter.tasks()), *jobs)
}

// drip lets a job be submitted now and then.
func (c *controller) drip(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	c.grant(seats * slotsEach) // something to begin with
	for {
		select {
		case <-ticker.C:
			c.grant(1)
		case <-ctx.Done():
			return
		}
	}
}

// awaitEnds waits until every accepted job has ended.
func (c *controller) awaitEnds() {
	c.t.Helper()
	tasks := c.submitter.tasks()
	c.say("%d jobs are accepted; refused for want of room %d times, failed to be submitted %d times",
		len(tasks), c.submitter.refusals.Load(), c.submitter.failures.Load())
	ended, state := until(c.t, 2*patience, 500*time.Millisecond, func(ctx context.Context) (bool, string) {
		open := []string{}
		for _, k := range tasks {
			e, err := c.book.Get(ctx, k.job.ID)
			if err != nil || !e.State.Terminal() {
				open = append(open, fmt.Sprintf("%s %s %v", k.job.ID, e.State, err))
			}
		}
		return len(open) == 0, fmt.Sprintf("%d jobs are open: %.500v", len(open), open)
	})
	if !ended {
		c.t.Error(state)
	}
	c.say("all jobs have ended")
}
