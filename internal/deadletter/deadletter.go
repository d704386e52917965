// Package deadletter brings dead letters back into the queue, or removes them, one at a
// time or in bulk, and keeps the queue's archive in step with the ledger.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/ticket"
)

// Ledger is what an Office needs of package ledger.
type Ledger interface {
	// Get returns what is known of a job.
	Get(ctx context.Context, id string) (ledger.Entry, error)
	// Shelve notes where the task of a dead letter stands.
	Shelve(ctx context.Context, id string, s ledger.Shelf) (ledger.State, error)
	// Requeue makes a dead letter a queued job again.
	Requeue(ctx context.Context, id string) (ledger.Entry, error)
	// Purge removes a dead letter.
	Purge(ctx context.Context, id string) error
}

// Queue is what an Office needs of package queue.
type Queue interface {
	// Enqueue puts a job into a queue.
	Enqueue(ctx context.Context, e queue.Envelope, q job.Queue) error
	// Remove takes a task away that nobody works on.
	Remove(ctx context.Context, e queue.Envelope, q job.Queue) error
}

var (
	_ Ledger = (*ledger.Ledger)(nil)
	_ Queue  = (*queue.Producer)(nil)
)

// Office handles dead letters. It is safe for concurrent use and owns no goroutine.
type Office struct {
	ledger Ledger
	queue  Queue
}

// New returns an Office.
func New(l Ledger, q Queue) *Office { return &Office{ledger: l, queue: q} }

// Requeue runs a dead letter again: its attempts are counted anew, its history is kept.
// Errors: ledger.ErrNotFound; ledger.ErrNotDead. After any other error the job is dead or queued, never
// lost; calling again is safe.
func (o *Office) Requeue(ctx context.Context, id string) error {
	before, err := o.clear(ctx, id)
	if err != nil {
		return err
	}
	// From here on the job is found by the reconciler, whatever happens to this process.
	e, err := o.ledger.Requeue(ctx, id)
	if err != nil {
		return err
	}
	if e.ID == "" {
		e = before
	}
	err = o.queue.Enqueue(ctx, ticket.Of(e), e.Queue)
	if errors.Is(err, queue.ErrDuplicate) {
		return nil
	}
	return err
}

// Purge removes a dead letter with its input, result and history, and its task.
// Errors: ledger.ErrNotFound; ledger.ErrNotDead.
func (o *Office) Purge(ctx context.Context, id string) error {
	if _, err := o.clear(ctx, id); err != nil {
		return err
	}
	return o.ledger.Purge(ctx, id)
}

// clear takes the archived task of a dead letter away. First it notes that it does so: else the disappearance would be
// taken for the wish of an operator who deleted the task.
func (o *Office) clear(ctx context.Context, id string) (ledger.Entry, error) {
	e, err := o.ledger.Get(ctx, id)
	switch {
	case err != nil && !errors.Is(err, ledger.ErrCorrupt):
		return e, err
	case e.State != ledger.StateDead:
		return e, fmt.Errorf("dead letter %s: %w: it is %s", id, ledger.ErrNotDead, e.State)
	}
	if _, err := o.ledger.Shelve(ctx, id, ledger.Unshelved); err != nil {
		return e, err
	}
	return e, o.queue.Remove(ctx, ticket.Of(e), e.Queue)
}

// Outcome is what became of the dead letters of a bulk operation.
type Outcome struct {
	// Done were requeued or purged; Skipped were no dead letters any more when their turn came; Failed
	// met an error of Redis and are unchanged or, if requeued, left to the reconciler.
	Done, Skipped, Failed int
	// Err is the first error behind Failed.
	Err error
}

// Bulk applies do, Requeue or Purge of an Office, to each id, at most perSecond times a second (0: as fast as possible),
// and tells progress after each. It ends early when ctx does, with its cause, or after ten failures in a row.
func Bulk(ctx context.Context, ids []string, perSecond float64, do func(context.Context, string) error, progress func(Outcome)) (Outcome, error) {
	const hopeless = 10
	var o Outcome
	var inRow int
	start := time.Now()
	for i, id := range ids {
		if perSecond > 0 {
			due := start.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
			if err := sleepUntil(ctx, due); err != nil {
				return o, err
			}
		}
		if ctx.Err() != nil {
			return o, context.Cause(ctx)
		}
		err := do(ctx, id)
		switch {
		case err == nil:
			o.Done++
			inRow = 0
		case errors.Is(err, ledger.ErrNotDead), errors.Is(err, ledger.ErrNotFound):
			o.Skipped++
		default:
			o.Failed++
			inRow++
			if o.Err == nil {
				o.Err = err
			}
		}
		progress(o)
		if inRow == hopeless {
			return o, fmt.Errorf("%d failures in a row, the last: %w", hopeless, err)
		}
	}
	return o, nil
}

func sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
