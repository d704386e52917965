package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/runner"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/sandbox/docker"
)

const (
	// queueSlots is how many handlers run at once on either side, queueClients how many submit.
	queueSlots   = 10
	queueClients = 10
)

// queue measures (g): jobs per second through queue, ledger and result store, with sandboxes that
// answer at once what a real one has answered, beside asynq alone with tasks that do nothing. The job that does as little is
// an untraced one; the traced one shows what decoding and storing a trace adds. Both sides are filled
// first and drained then. The finished traced jobs stay in the Redis of the crowded fleet.
func (b *bench) queue(ctx context.Context) error {
	var sides [3]*server
	for i := range sides {
		var err error
		if sides[i], err = b.startRedis(ctx); err != nil {
			return err
		}
	}
	var submit, enqueue, jobs, tasks, submitTraced, traced meter
	untraced := hello()
	untraced.Trace.Mode = job.TraceOff
	plain, err := b.outcome(ctx, untraced)
	if err != nil {
		return err
	}
	rich, err := b.outcome(ctx, hello())
	if err != nil {
		return err
	}
	for range b.plan.QueueTurns {
		if err := bareQueue(ctx, sides[0], b.plan.QueueJobs, &enqueue, &tasks); err != nil {
			return fmt.Errorf("bare asynq: %w", err)
		}
		if err := fullQueue(ctx, sides[1], b.plan.QueueJobs, untraced, noop{plain}, &submit, &jobs); err != nil {
			return err
		}
		if err := fullQueue(ctx, sides[2], b.plan.QueueJobs, hello(), noop{rich}, &submitTraced, &traced); err != nil {
			return err
		}
	}
	b.crowded = sides[2]
	b.report.queue(enqueue, submit, tasks, jobs)
	b.report.Queue.traced(traced)
	return nil
}

// outcome is what a real sandbox says of a job.
func (b *bench) outcome(ctx context.Context, j job.Job) (out sandbox.Outcome, err error) {
	name := b.home.name + "-outcome"
	engine, err := docker.Open(ctx, docker.Config{Image: b.image, Fleet: name, Worker: name}, zap.NewNop())
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	box, err := engine.Launch(ctx, job.DefaultLimits())
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	j.ID = job.NewID(time.Now())
	return box.Run(ctx, j.Normalize())
}

// noop is a launcher whose sandboxes have run the job already.
type noop struct{ out sandbox.Outcome }

var (
	_ sandbox.Launcher = noop{}
	_ sandbox.Sandbox  = noop{}
)

// Launch returns at once.
func (n noop) Launch(context.Context, job.Limits) (sandbox.Sandbox, error) { return n, nil }

// Run returns at once.
func (n noop) Run(context.Context, job.Job) (sandbox.Outcome, error) { return n.out, nil }

// Close has nothing to close.
func (n noop) Close() error { return nil }

// fill calls do for each of total numbers, by queueClients at once, and meters it.
func fill(total int, m *meter, do func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, queueClients)
	start := time.Now()
	var wg sync.WaitGroup
	for c := range queueClients {
		wg.Go(func() {
			for errs[c] == nil {
				i := int(next.Add(1)) - 1
				if i >= total {
					return
				}
				errs[c] = do(i)
			}
		})
	}
	wg.Wait()
	m.count, m.took = m.count+total, m.took+time.Since(start)
	return errors.Join(errs...)
}

// processor is the processor time used so far by this process, and by a Redis.
func processor(ctx context.Context, s *server) (own, redis time.Duration, err error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, 0, err
	}
	info, err := s.client.Info(ctx, "cpu").Result()
	for _, m := range regexp.MustCompile(`used_cpu_(?:user|sys):([0-9.]+)`).FindAllStringSubmatch(info, -1) {
		seconds, _ := strconv.ParseFloat(m[1], 64) // digits only
		redis += time.Duration(seconds * float64(time.Second))
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), redis, err
}

// drain counts total ends from the first on.
type drain struct {
	server *server
	total  int64
	seen   atomic.Int64
	first  atomic.Int64 // unix nanoseconds
	done   chan time.Time
}

func newDrain(s *server, total int) *drain {
	return &drain{server: s, total: int64(total), done: make(chan time.Time, 1)}
}

func (d *drain) end() {
	switch d.seen.Add(1) {
	case 1:
		d.first.Store(time.Now().UnixNano())
	case d.total:
		d.done <- time.Now()
	}
}

// start calls begin, which starts the ends, and waits for all of them.
func (d *drain) start(ctx context.Context, m *meter, begin func() error) error {
	own, redis, err := processor(ctx, d.server)
	if err != nil {
		return err
	}
	if err := begin(); err != nil {
		return err
	}
	if err := d.wait(ctx, m); err != nil {
		return err
	}
	ownAfter, redisAfter, err := processor(ctx, d.server)
	m.own, m.redis = m.own+ownAfter-own, m.redis+redisAfter-redis
	return err
}

func (d *drain) wait(ctx context.Context, m *meter) error {
	select {
	case last := <-d.done:
		m.count, m.took = m.count+int(d.total)-1, m.took+last.Sub(time.Unix(0, d.first.Load()))
		return nil
	case <-time.After(patience):
		return fmt.Errorf("%d of %d ended within %s", d.seen.Load(), d.total, patience)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// bareQueue is asynq as anybody would use it, with its own defaults, over a client with the options of the fleet's.
func bareQueue(ctx context.Context, s *server, total int, enqueue, tasks *meter) error {
	if err := s.client.FlushAll(ctx).Err(); err != nil {
		return err
	}
	client, err := bareClient(s)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // nothing is in flight
	producer := asynq.NewClientFromRedisClient(client)
	payload := make([]byte, 100)
	if err := fill(total, enqueue, func(i int) error {
		_, err := producer.EnqueueContext(ctx, asynq.NewTask("noop", payload), asynq.TaskID(strconv.Itoa(i)))
		return err
	}); err != nil {
		return err
	}
	d := newDrain(s, total)
	consumer := asynq.NewServerFromRedisClient(client, asynq.Config{Concurrency: queueSlots, LogLevel: asynq.FatalLevel})
	defer consumer.Shutdown()
	return d.start(ctx, tasks, func() error {
		return consumer.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { d.end(); return nil }))
	})
}

// bareClient is a client with the options of the fleet's, and without what the fleet has put into that.
func bareClient(s *server) (*redis.Client, error) {
	own, ok := s.client.(*redis.Client)
	if !ok {
		return nil, fmt.Errorf("the client of a single server is a %T", s.client)
	}
	options := *own.Options()
	return redis.NewClient(&options), nil
}

// fullQueue is the same with all that a fleet does around a sandbox.
func fullQueue(ctx context.Context, s *server, total int, j job.Job, launcher sandbox.Launcher, submit, jobs *meter) (err error) {
	c, err := newCustomer(s)
	if err != nil {
		return err
	}
	defer c.close()
	if err := fill(total, submit, func(int) error {
		_, _, err := c.desk.Submit(ctx, j)
		return err
	}); err != nil {
		return err
	}
	book, err := ledger.New(s.client, ledger.Config{})
	if err != nil {
		return err
	}
	defer func() { _ = book.Close() }() // its goroutine only waits for messages
	r, err := runner.New(book, launcher, runner.Config{Worker: "bench"})
	if err != nil {
		return err
	}
	d := newDrain(s, total)
	handle := func(ctx context.Context, delivery queue.Delivery) (queue.Report, error) {
		report, err := r.Handle(ctx, delivery)
		if err == nil {
			d.end()
		}
		return report, err
	}
	consumer, err := queue.NewConsumer(s.client, queue.Config{Concurrency: queueSlots}, handle, zap.NewNop())
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	var group errgroup.Group
	defer func() {
		stop()
		err = errors.Join(err, group.Wait())
	}()
	return d.start(ctx, jobs, func() error {
		group.Go(func() error { return consumer.Run(running) })
		return nil
	})
}
