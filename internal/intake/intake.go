// Package intake is the desk where jobs are handed in and results are handed
// out: what every front end calls, the command line as well as HTTP.
//
// A job is stored in the ledger first and put into the queue second. When the second step fails nothing
// is lost: the reconciler queues the job, and submitting it again, with the same id, does so at once.
package intake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/detach"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/ticket"
)

// The errors that callers branch on, beside *job.ValidationError for a job that
// must not run and *QueueError for one that is stored but not queued. They come wrapped; test with errors.Is.
var (
	// ErrNotFound means that there is no such job, or that its retention is over.
	ErrNotFound = ledger.ErrNotFound
	// ErrConflict means that the id is taken by a job with other input.
	ErrConflict = ledger.ErrConflict
	// ErrNotFinished means that the job has no result yet.
	ErrNotFinished = ledger.ErrNotFinished
)

// FullError means that a job was refused because the fleet has enough to do. It says when to try again.
type FullError = ledger.FullError

// QueueError means that a job is stored but could not be put into the queue. It will be, by the
// reconciler; submitting it again with its id is safe and quicker.
type QueueError struct {
	ID  string
	Err error
}

// Error says what became of the job.
func (e *QueueError) Error() string {
	return fmt.Sprintf("job %s is stored but not queued yet; the fleet will queue it, or submit it again with this id: %v", e.ID, e.Err)
}

// Unwrap returns why the job could not be queued.
func (e *QueueError) Unwrap() error { return e.Err }

// Ledger is what a Desk needs of package ledger, where each method is documented.
type Ledger interface {
	// Create stores a job as queued, once per id.
	Create(ctx context.Context, j job.Job) (e ledger.Entry, created bool, err error)
	// Get returns what is known of a job.
	Get(ctx context.Context, id string) (ledger.Entry, error)
	// Result returns the result of a finished job.
	Result(ctx context.Context, id string) (job.Result, error)
	// Wait returns the result as soon as there is one.
	Wait(ctx context.Context, id string) (job.Result, error)
	// Cancel cancels a job for good.
	Cancel(ctx context.Context, id string) (ledger.State, error)
}

// Queue is what a Desk needs of package queue.
type Queue interface {
	// Enqueue puts a job into a queue and wakes a worker.
	Enqueue(ctx context.Context, e queue.Envelope, q job.Queue) error
	// Remove takes the task of a canceled job out again.
	Remove(ctx context.Context, e queue.Envelope, q job.Queue) error
}

var (
	_ Ledger = (*ledger.Ledger)(nil)
	_ Queue  = (*queue.Producer)(nil)
)

// enqueueTimeout bounds the second step of Submit, which goes on when the caller has gone.
const enqueueTimeout = 10 * time.Second

// Config is what a Desk needs to know. The zero value is good.
type Config struct {
	// Maxima are the largest limits that are accepted. Default job.MaxLimits.
	Maxima job.Limits
	// Log may be nil.
	Log *zap.Logger
}

// Desk takes jobs in and hands results out. It is safe for concurrent use and owns no goroutine.
type Desk struct {
	ledger Ledger
	queue  Queue
	maxima job.Limits
	log    *zap.Logger
}

// New returns a Desk.
func New(l Ledger, q Queue, cfg Config) (*Desk, error) {
	if cfg.Maxima == (job.Limits{}) {
		cfg.Maxima = job.MaxLimits()
	}
	if err := cfg.Maxima.Validate(job.MaxLimits()); err != nil {
		return nil, fmt.Errorf("intake config: Maxima: %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	return &Desk{ledger: l, queue: q, maxima: cfg.Maxima, log: cfg.Log}, nil
}

// Submit takes a job in and returns its id. Defaults are filled in, and a job without an id gets one. The id is
// the key of idempotency: when a job with the same id and input exists, existed is true and nothing
// changes, except that it is queued when it waits for that.
//
// Errors: *job.ValidationError or *FullError, and nothing is stored; ErrConflict; *QueueError, with the id: the job is stored.
func (d *Desk) Submit(ctx context.Context, j job.Job) (id string, existed bool, err error) {
	j = j.Normalize()
	if err := j.Validate(d.maxima); err != nil {
		return "", false, err
	}
	if j.ID == "" {
		j.ID = job.NewID(time.Now())
	}
	entry, created, err := d.ledger.Create(ctx, j)
	if err != nil {
		return "", false, fmt.Errorf("submit: %w", err)
	}
	if entry.State != ledger.StateQueued {
		return j.ID, !created, nil
	}
	if err := d.enqueue(ctx, entry); err != nil {
		return j.ID, !created, &QueueError{ID: j.ID, Err: err}
	}
	return j.ID, !created, nil
}

// enqueue puts a queued job into the queue, unless it is there.
func (d *Desk) enqueue(ctx context.Context, e ledger.Entry) error {
	// A caller who gives up now would leave the job to the reconciler for nothing.
	ctx, cancel := detach.Context(ctx, enqueueTimeout)
	defer cancel()
	err := d.queue.Enqueue(ctx, ticket.Of(e), e.Queue)
	if errors.Is(err, queue.ErrDuplicate) {
		return nil
	}
	return err
}

// Get returns what is known of a job besides its input and result.
// Errors: ErrNotFound.
func (d *Desk) Get(ctx context.Context, id string) (ledger.Entry, error) {
	return d.ledger.Get(ctx, id)
}

// Result returns the result of a job.
// Errors: ErrNotFound; ErrNotFinished.
func (d *Desk) Result(ctx context.Context, id string) (job.Result, error) {
	return d.ledger.Result(ctx, id)
}

// Wait returns the result of a job as soon as there is one, or an error when ctx ends before.
// Errors: ErrNotFound; the cause of ctx.
func (d *Desk) Wait(ctx context.Context, id string) (job.Result, error) {
	return d.ledger.Wait(ctx, id)
}

// Cancel cancels a job for good and returns the state it is in then: canceled when it was
// queued; running when its worker was told, which ends it within a second or so; else the state it had ended in before.
// Errors: ErrNotFound.
func (d *Desk) Cancel(ctx context.Context, id string) (ledger.State, error) {
	state, err := d.ledger.Cancel(ctx, id)
	if err != nil || state != ledger.StateCanceled {
		return state, err
	}
	// A task that stays behind costs a worker a moment: it finds the job canceled.
	entry, err := d.ledger.Get(ctx, id)
	if err == nil {
		err = d.queue.Remove(ctx, ticket.Of(entry), entry.Queue)
	}
	if err != nil {
		d.log.Warn("take the task of a canceled job out of the queue", zap.String("job_id", id), zap.Error(err))
	}
	return state, nil
}
