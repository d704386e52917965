package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/ticket"
)

// The defaults of Config.
const (
	DefaultEvery        = time.Second
	DefaultQueuedGrace  = 15 * time.Second
	DefaultQueuedRecall = 30 * time.Second
	DefaultBatch        = 200
)

// Jobs is the ledger as the reconciler uses it.
type Jobs interface {
	// Overdue returns jobs that are due to be looked at.
	Overdue(ctx context.Context, limit int) ([]ledger.Open, error)
	// Reclaim takes a stale claim away and returns the state that the job is in then.
	Reclaim(ctx context.Context, id string) (ledger.State, error)
	// Postpone says when Overdue shall return a job next.
	Postpone(ctx context.Context, id string, d time.Duration) error
}

// Tasks is the queue as the reconciler uses it.
type Tasks interface {
	// Ensure gives a job a task that will be delivered, if it has none.
	Ensure(ctx context.Context, e queue.Envelope, q job.Queue, at queue.Presence) (repaired bool, err error)
}

var (
	_ Jobs  = (*ledger.Ledger)(nil)
	_ Tasks = (*queue.Producer)(nil)
)

// Config is what a Reconciler needs to know. The zero value is good for everything but tests.
type Config struct {
	// Every is the time between two looks at what is due.
	Every time.Duration
	// Settle is how long Redis must have answered without a break before a stale claim is taken
	// away: after an outage the workers need a moment to renew theirs. It is the ledger's StaleAfter.
	Settle time.Duration
	// QueuedGrace is how long a job may be queued before its task is looked for; QueuedRecall is the time until the next look.
	QueuedGrace, QueuedRecall time.Duration
	// Batch is how many jobs are looked at in one go.
	Batch int
	// Metrics may be nil.
	Metrics *Metrics
	// Log may be nil.
	Log *zap.Logger
}

// WithDefaults returns c with every field filled in.
func (c Config) WithDefaults() Config {
	c.Every = cmp.Or(c.Every, DefaultEvery)
	c.Settle = cmp.Or(c.Settle, ledger.DefaultStaleAfter)
	c.QueuedGrace = cmp.Or(c.QueuedGrace, DefaultQueuedGrace)
	c.QueuedRecall = cmp.Or(c.QueuedRecall, DefaultQueuedRecall)
	c.Batch = cmp.Or(c.Batch, DefaultBatch)
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// Validate reports every fault of c, which must have its defaults filled in.
func (c Config) Validate() error {
	var errs []error
	positive := func(name string, n int64) {
		if n <= 0 {
			errs = append(errs, fmt.Errorf("%s: must be more than 0", name))
		}
	}
	positive("Every", int64(c.Every))
	positive("Settle", int64(c.Settle))
	positive("QueuedGrace", int64(c.QueuedGrace))
	positive("QueuedRecall", int64(c.QueuedRecall))
	positive("Batch", int64(c.Batch))
	return errors.Join(errs...)
}

// Reconciler repairs what crashes leave behind.
type Reconciler struct {
	jobs  Jobs
	tasks Tasks
	cfg   Config
	lock  *lock

	// These belong to the goroutine of Run.
	healthy time.Time // since when Redis has answered every time
	last    time.Time // when the last step ended
}

// New returns a Reconciler that takes its lock in rdb.
func New(rdb redis.UniversalClient, jobs Jobs, tasks Tasks, cfg Config) (*Reconciler, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("reconcile config: %w", err)
	}
	return &Reconciler{jobs: jobs, tasks: tasks, cfg: cfg, lock: newLock(rdb, lockKey, 4*cfg.Every)}, nil
}

// Run works until ctx ends. Faults of Redis are logged and waited out; so its only error is nil.
func (r *Reconciler) Run(ctx context.Context) error {
	ticker := time.NewTicker(r.cfg.Every)
	defer ticker.Stop()
	defer r.lock.release(ctx)
	for {
		if err := r.step(ctx); err != nil && ctx.Err() == nil {
			r.healthy = time.Time{}
			r.cfg.Metrics.errors.Inc()
			r.cfg.Log.Warn("reconcile", zap.Error(err))
		}
		r.last = time.Now()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// step is one look. All reconcilers take it, up to the lock, so that each knows how Redis has been.
func (r *Reconciler) step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*r.cfg.Every)
	defer cancel()
	mine, err := r.lock.take(ctx)
	if err != nil {
		return fmt.Errorf("take the lock: %w", err)
	}
	now := time.Now()
	// A gap means that this process stood still, and perhaps the whole machine with all its workers.
	if r.healthy.IsZero() || now.Sub(r.last) > 5*r.cfg.Every {
		r.healthy = now
	}
	r.cfg.Metrics.leader(mine)
	if !mine {
		return nil
	}
	open, err := r.jobs.Overdue(ctx, r.cfg.Batch)
	errs := []error{err}
	for _, o := range open {
		errs = append(errs, r.repair(ctx, o, now.Sub(r.healthy) >= r.cfg.Settle))
	}
	return errors.Join(errs...)
}

// repair handles one job that is due. settled tells whether a stale claim may be believed.
func (r *Reconciler) repair(ctx context.Context, o ledger.Open, settled bool) error {
	id := o.Entry.ID
	switch {
	case o.Stale && !settled:
		return r.jobs.Postpone(ctx, id, r.cfg.Every)
	case o.Stale:
		return r.reclaim(ctx, o.Entry)
	case o.Waiting < r.cfg.QueuedGrace:
		return r.jobs.Postpone(ctx, id, r.cfg.QueuedGrace-o.Waiting)
	}
	repaired, err := r.ensure(ctx, o.Entry, queue.Unknown)
	if err != nil {
		return err
	}
	if repaired {
		r.cfg.Metrics.enqueued.Inc()
		r.cfg.Log.Warn("a queued job had no task that could be delivered; it has one now", zap.String("job_id", id))
	}
	return r.jobs.Postpone(ctx, id, r.cfg.QueuedRecall)
}

// reclaim takes a job from a worker that is gone.
func (r *Reconciler) reclaim(ctx context.Context, e ledger.Entry) error {
	state, err := r.jobs.Reclaim(ctx, e.ID)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	switch state {
	case ledger.StateQueued:
		r.cfg.Metrics.reclaimed.Inc()
		r.cfg.Log.Warn("a worker is gone; its job is queued again", zap.String("job_id", e.ID), zap.String("lost_worker", e.Worker))
		_, err := r.ensure(ctx, e, queue.WorkerLost)
		return err
	case ledger.StateDead:
		r.cfg.Metrics.poisoned.Inc()
		r.cfg.Log.Error("a job was lost with its worker too often; it is in the dead letters", zap.String("job_id", e.ID))
		// Its task, once delivered, is archived, as those of other dead letters are.
		_, err := r.ensure(ctx, e, queue.WorkerLost)
		return err
	}
	return nil
}

func (r *Reconciler) ensure(ctx context.Context, e ledger.Entry, at queue.Presence) (bool, error) {
	q := e.Queue
	if q == "" {
		q = job.QueueDefault // of a damaged entry, which the worker will reject
	}
	return r.tasks.Ensure(ctx, ticket.Of(e), q, at)
}
