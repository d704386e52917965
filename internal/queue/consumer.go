package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/detach"
	"github.com/execra/tracefleet/internal/job"
)

// Delivery is one delivery of a job to a handler.
type Delivery struct {
	Envelope Envelope
	// Corrupt is set when the payload could not be understood; it wraps
	// ErrCorrupt. Then only Envelope.ID is to be relied on. The handler should end the job as rejected.
	Corrupt error
	// Retried is how many counted attempts were made before, MaxRetry how many more than one there may be.
	Retried, MaxRetry int
	// LastAttempt is true when a counted fault will not be retried. The handler
	// has to bury the job in the ledger before it returns one.
	LastAttempt bool
}

// A Handler runs one job. It is called from several goroutines, and may be called twice for
// a job. ctx ends only when the worker has to go away; then its cause is ErrDraining, and the handler should
// clean up, release the job, and return an error that Draining made.
//
// With a nil error the task is done and the Report is shown in asynqmon. An error means that the platform
// failed: its class, see Transient and Permanent, decides about a retry. A panic counts as ClassPanic.
type Handler func(ctx context.Context, d Delivery) (Report, error)

const (
	// slotWait is how long a delivered task waits for a slot before it goes back. It
	// seldom waits at all, because nothing is fetched while no slot is free.
	slotWait = 5 * time.Second
	// abortAfter is how long asynq waits for handlers that did not end even when they were told to. After it
	// the task goes to another worker, whom the ledger tells that the job is busy.
	abortAfter = time.Second
	// checkInterval is asynq's pause between two looks at empty queues. The real pause is in the hook.
	checkInterval = 100 * time.Microsecond
	// slowCheckInterval is the pause when the hook does not wait.
	slowCheckInterval = time.Second
	// forwardEvery is how often retries that are due are looked for.
	forwardEvery = time.Second
	// listEvery is how often the queues are listed anew.
	listEvery = time.Minute
)

// Consumer delivers jobs to a handler.
type Consumer struct {
	rdb     redis.UniversalClient
	cfg     Config
	handler Handler
	log     *zap.Logger
	slots   *slots
	crew    *crew
	reports *reports
	on      remedies
	hurry   chan struct{}
	once    sync.Once
}

// NewConsumer returns a Consumer over rdb, which stays the caller's to close, after Run has returned.
// handler must not be nil; log may be.
func NewConsumer(rdb redis.UniversalClient, cfg Config, handler Handler, log *zap.Logger) (*Consumer, error) {
	cfg = cfg.WithDefaults()
	err := cfg.Validate()
	if handler == nil {
		err = errors.Join(err, errors.New("handler: must not be nil"))
	}
	if err != nil {
		return nil, fmt.Errorf("queue config: %w", err)
	}
	if log == nil {
		log = zap.NewNop()
	}
	return &Consumer{
		rdb: rdb, cfg: cfg, handler: handler, log: log, slots: newSlots(cfg.Concurrency, cfg.Unavailable, cfg.Metrics), crew: newCrew(), reports: newReports(rdb),
		on: remedies{uncancel: true, backOff: true, wake: true, forward: true, scout: true}, hurry: make(chan struct{}),
	}, nil
}

// Run delivers jobs until ctx ends, and then drains: it fetches nothing more, lets handlers go on for
// Config.DrainGrace, then cancels their context with ErrDraining and gives them Config.KillGrace to
// return. The error then says how many did not. Run may be called once.
func (c *Consumer) Run(ctx context.Context) error {
	client, err := clone(c.rdb)
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	defer func() { _ = client.Close() }() // Nothing is in flight any more.
	stop := make(chan struct{})
	weights := c.cfg.Shards.weights()
	sleeper := &sleeper{rdb: c.rdb, queues: weights, stop: stop}
	defer sleeper.close()
	basket := newBasket(stop)
	client.AddHook(&hook{
		on: c.on, basket: basket, slots: c.slots, reports: c.reports, stop: stop, metrics: c.cfg.Metrics,
		scout: newScout(c.rdb, weights, sleeper, c.on, c.cfg.Metrics), due: newDue(c.rdb, weights),
	})
	handlers, interrupt := context.WithCancelCause(context.WithoutCancel(ctx))
	defer interrupt(nil)
	server := asynq.NewServerFromRedisClient(client, c.serverConfig(weights))
	err = server.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		return c.process(ctx, handlers, stop, t)
	}))
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	c.keepListed(ctx, weights)
	// From here on nothing is fetched. asynq's fetching goroutine may be in the hook, which this lets go.
	close(stop)
	if !basket.waitEmpty(abortAfter) {
		c.log.Warn("tasks that were fetched stay behind until their leases are over")
	}
	server.Stop()
	err = c.drain(ctx, interrupt)
	c.crew.dismiss()
	if err == nil {
		c.crew.wait()
	}
	server.Shutdown()
	return err
}

func (c *Consumer) serverConfig(weights map[string]int) asynq.Config {
	interval := checkInterval
	if !c.on.wake {
		interval = slowCheckInterval
	}
	return asynq.Config{
		// The weights are for the hook, which chooses; asynq would write a list of a hundred names for each task.
		Concurrency: c.cfg.Concurrency, Queues: weights, StrictPriority: true, TaskCheckInterval: interval, DelayedTaskCheckInterval: forwardEvery,
		RetryDelayFunc: retryDelay, IsFailure: isFailure, ShutdownTimeout: abortAfter,
		Logger: asynqLogger{c.log}, LogLevel: asynq.InfoLevel,
	}
}

// keepListed lists the queues for asynqmon and asynq's inspector until ctx ends: asynq does so once per process, which is not
// enough when Redis lost its data since.
func (c *Consumer) keepListed(ctx context.Context, weights map[string]int) {
	names := make([]any, 0, len(weights))
	for name := range weights {
		names = append(names, name)
	}
	ticker := time.NewTicker(listEvery)
	defer ticker.Stop()
	for {
		if err := c.rdb.SAdd(ctx, "asynq:queues", names...).Err(); err != nil && ctx.Err() == nil {
			c.log.Warn("list the queues", zap.Error(err))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// Hurry ends the grace period of a drain, now or in advance. It is idempotent.
func (c *Consumer) Hurry() { c.once.Do(func() { close(c.hurry) }) }

// drain waits for the handlers and, after the grace period, interrupts them.
func (c *Consumer) drain(ctx context.Context, interrupt context.CancelCauseFunc) error {
	c.log.Info("draining", zap.Int("handlers", c.slots.inUse()), zap.Duration("grace", c.cfg.DrainGrace))
	grace, cancel := detach.Context(ctx, c.cfg.DrainGrace)
	defer cancel()
	hurried := make(chan struct{})
	go func() {
		defer close(hurried)
		select {
		case <-c.hurry:
			cancel()
		case <-grace.Done():
		}
	}()
	idle := c.slots.waitIdle(grace)
	cancel()
	<-hurried
	if idle {
		return nil
	}
	c.log.Info("interrupting handlers", zap.Int("handlers", c.slots.inUse()), zap.Duration("grace", c.cfg.KillGrace))
	interrupt(ErrDraining)
	kill, cancel := detach.Context(ctx, c.cfg.KillGrace)
	defer cancel()
	if !c.slots.waitIdle(kill) {
		return fmt.Errorf("drain: %d handlers did not end within %s", c.slots.inUse(), c.cfg.KillGrace)
	}
	return nil
}

// process handles one task. ctx is asynq's, which ends when asynq loses interest; the handler gets one
// that does not, because it has to end its job in good order in any case.
func (c *Consumer) process(ctx, handlers context.Context, stop <-chan struct{}, t *asynq.Task) error {
	defer c.slots.given.Add(-1)
	if !c.slots.acquire(ctx, slotWait) {
		c.cfg.Metrics.faults.WithLabelValues(ClassBusy.label()).Inc()
		return newTaskError(errors.New("no slot is free"), ClassBusy, false)
	}
	defer c.slots.release()
	select {
	case <-stop:
		// Fetched in the last moment. No handler starts once drain counts the slots.
		return newTaskError(ErrDraining, ClassDraining, false)
	default:
	}
	var err error
	c.crew.do(func() { err = c.handle(ctx, handlers, t) })
	return err
}

// handle is process when there is a slot.
func (c *Consumer) handle(ctx, handlers context.Context, t *asynq.Task) error {
	d, ok := c.delivery(ctx, t)
	if !ok {
		c.cfg.Metrics.ended.WithLabelValues(outcomeDropped).Inc()
		c.log.Error("dropped a task that belongs to no job", zap.Error(d.Corrupt))
		return nil
	}
	c.cfg.Metrics.delivered.Inc()
	report, err := c.call(handlers, d)
	if err != nil {
		if ClassOf(err) == ClassInternal && errors.Is(context.Cause(handlers), ErrDraining) {
			err = Draining(err)
		}
		return c.failed(d, err)
	}
	c.report(d, report)
	c.cfg.Metrics.ended.WithLabelValues(outcomeAcknowledged).Inc()
	return nil
}

// delivery reads a task. ok is false when not even the id can be had.
func (c *Consumer) delivery(ctx context.Context, t *asynq.Task) (d Delivery, ok bool) {
	id, _ := asynq.GetTaskID(ctx)
	d.MaxRetry = c.cfg.MaxRetry
	d.Retried, _ = asynq.GetRetryCount(ctx)
	d.LastAttempt = d.Retried >= d.MaxRetry
	d.Envelope, d.Corrupt = DecodeEnvelope(t.Payload())
	switch {
	case d.Corrupt != nil:
	case t.Type() != TaskType:
		d.Corrupt = fmt.Errorf("%w: task type %.40q", ErrCorrupt, t.Type())
	case d.Envelope.ID != id:
		d.Corrupt = fmt.Errorf("%w: it is of job %s", ErrCorrupt, d.Envelope.ID)
	}
	// The id of the task is the id of the job, whatever the payload says.
	d.Envelope.ID = id
	return d, job.ValidID(id)
}

// call calls the handler and turns a panic into an error.
func (c *Consumer) call(ctx context.Context, d Delivery) (report Report, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("the handler panicked", zap.String("job_id", d.Envelope.ID), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			err = Transient(fmt.Errorf("panic: %v", p), ClassPanic)
		}
	}()
	return c.handler(ctx, d)
}

// failed turns a handler's error into what asynq shall do.
func (c *Consumer) failed(d Delivery, err error) error {
	class := ClassOf(err)
	rule := RuleOf(class)
	final := !rule.Retry || rule.Counted && d.LastAttempt
	outcome := outcomeRetried
	if final {
		outcome = outcomeArchived
	}
	c.cfg.Metrics.faults.WithLabelValues(class.label()).Inc()
	c.cfg.Metrics.ended.WithLabelValues(outcome).Inc()
	c.log.Warn("a job could not be run", zap.String("job_id", d.Envelope.ID), zap.String("class", string(class)),
		zap.Int("retried", d.Retried), zap.String("outcome", outcome), zap.Error(err))
	return newTaskError(err, class, final)
}

// report keeps what asynqmon shows for the acknowledgement. The result itself is in the ledger, so a failure here loses nothing.
func (c *Consumer) report(d Delivery, r Report) {
	doc, err := r.encode()
	if err != nil {
		c.log.Debug("show the result in asynq", zap.String("job_id", d.Envelope.ID), zap.Error(err))
		return
	}
	c.reports.put(d.Envelope.ID, doc)
}
