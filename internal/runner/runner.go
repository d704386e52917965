package runner

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/sandbox"
)

// Ledger is what a Runner needs of package ledger, where each method is
// documented. It has more methods than an interface should because the life of a claim has that many steps.
type Ledger interface {
	// Get returns what is known of a job.
	Get(ctx context.Context, id string) (ledger.Entry, error)
	// Claim takes a queued job for a worker.
	Claim(ctx context.Context, id, worker string) (ledger.Claim, error)
	// Hold keeps a claim alive and tells when to let go.
	Hold(ctx context.Context, c ledger.Claim) (held context.Context, stop func())
	// ClaimedInput returns the job of a claim as it was submitted.
	ClaimedInput(ctx context.Context, c ledger.Claim) (job.Job, error)
	// Result returns the result of a job that is finished.
	Result(ctx context.Context, id string) (job.Result, error)
	// Finish ends a job with its result.
	Finish(ctx context.Context, id string, fence int64, r job.Result) error
	// Bury ends a job that the fleet could not run.
	Bury(ctx context.Context, id string, fence int64, class, message string, r job.Result) error
	// Release gives a job back for another attempt.
	Release(ctx context.Context, id string, fence int64, reason string) error
	// ResultSize is the size of a result as a document and as it is stored.
	ResultSize(r job.Result) (raw, stored int64, err error)
	// MaxResultBytes is the largest result that is stored.
	MaxResultBytes() int64
}

var _ Ledger = (*ledger.Ledger)(nil)

// Runner runs jobs in sandboxes. It is safe for concurrent use.
type Runner struct {
	cfg      Config
	ledger   Ledger
	launcher sandbox.Launcher
}

// New returns a Runner.
func New(l Ledger, launcher sandbox.Launcher, cfg Config) (*Runner, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("runner config: %w", err)
	}
	return &Runner{cfg: cfg, ledger: l, launcher: launcher}, nil
}

// Handle runs the job of a delivery. It is a queue.Handler: ctx ends only when the worker drains.
// See the package's comment for what becomes of the job.
func (r *Runner) Handle(ctx context.Context, d queue.Delivery) (queue.Report, error) {
	id := d.Envelope.ID
	claim, err := r.ledger.Claim(ctx, id, r.cfg.Worker)
	if err != nil && !errors.Is(err, ledger.ErrCorrupt) {
		return r.unclaimed(ctx, id, err)
	}
	a := &attempt{
		Runner: r, delivery: d, claim: claim, damage: err,
		job: job.Job{ID: id, Limits: job.DefaultLimits()},
		log: r.cfg.Log.WithLazy(zap.String("job_id", id), zap.Int("attempt", claim.Attempt)),
	}
	if err == nil {
		r.cfg.Metrics.phase(phaseWait, claim.Entry.ClaimedAt.Sub(claim.Entry.CreatedAt))
	}
	return a.handle(ctx)
}

// unclaimed says what to do with a delivery whose job could not be claimed.
func (r *Runner) unclaimed(ctx context.Context, id string, err error) (queue.Report, error) {
	switch {
	case errors.Is(err, ledger.ErrDead):
		// The task goes where its job stands: into the archive, so that the queue's own pages show it.
		return queue.Report{}, queue.Permanent(r.epitaph(ctx, id, err))
	case errors.Is(err, ledger.ErrTerminal):
		// Delivered twice, or canceled while it was queued: the work is done.
		return r.standing(ctx, id), nil
	case errors.Is(err, ledger.ErrBusy):
		return queue.Report{}, queue.Transient(err, queue.ClassBusy)
	case errors.Is(err, ledger.ErrNotFound):
		// Its retention is over, or it was never stored. There is nothing to end.
		return queue.Report{}, queue.Permanent(err)
	case ctx.Err() != nil:
		return queue.Report{}, queue.Draining(err)
	default:
		return queue.Report{}, queue.Transient(err, queue.ClassStore)
	}
}

// epitaph is why a job is dead, for the queue's own pages.
func (r *Runner) epitaph(ctx context.Context, id string, err error) error {
	if e, gerr := r.ledger.Get(ctx, id); gerr == nil && e.Class != "" {
		return fmt.Errorf("%s: %s", e.Class, e.Message)
	}
	return err
}

// standing reports the result that a job has. Without one the report is empty: it is only for show.
func (r *Runner) standing(ctx context.Context, id string) queue.Report {
	result, err := r.ledger.Result(ctx, id)
	if err != nil {
		r.cfg.Log.Warn("report the result of a finished job", zap.String("job_id", id), zap.Error(err))
		return queue.Report{}
	}
	return report(result)
}

func report(r job.Result) queue.Report {
	return queue.Report{
		Status: r.Status, Headline: r.Headline, Returncode: r.Returncode, StdoutBytes: r.StdoutBytes, StderrBytes: r.StderrBytes,
	}
}
