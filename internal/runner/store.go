package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/detach"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/oneline"
	"github.com/execra/tracefleet/internal/queue"
)

// The pauses between two attempts at storing.
const (
	minStorePause = 50 * time.Millisecond
	maxStorePause = 2 * time.Second
)

// finish stores a result and reports it.
func (a *attempt) finish(ctx context.Context, r job.Result) (queue.Report, error) {
	id, fence := a.claim.Entry.ID, a.claim.Fence
	r, err := a.store(ctx, r, func(ctx context.Context, r job.Result) error { return a.ledger.Finish(ctx, id, fence, r) })
	switch {
	case err == nil:
		a.cfg.Metrics.ended(r, a.wall)
		a.log.Info("job ended", zap.String("status", string(r.Status)), zap.Int64("wall_ms", r.Usage.WallMS),
			zap.Int64("queue_ms", r.Usage.QueueMS), zap.Int64("startup_ms", r.Usage.StartupMS))
		return report(r), nil
	case errors.Is(err, ledger.ErrTerminal):
		// It was ended under another claim. That result stands.
		return a.standing(ctx, id), nil
	case errors.Is(err, ledger.ErrFenced):
		return queue.Report{}, queue.Transient(err, queue.ClassBusy)
	case errors.Is(err, ledger.ErrNotFound):
		return queue.Report{}, queue.Permanent(err)
	}
	return queue.Report{}, a.giveBack(ctx, queue.Transient(fmt.Errorf("store the result: %w", err), queue.ClassStore))
}

// giveBack ends an attempt that failed through no fault of the program: the job is released for another
// attempt, or buried when there shall be none. It returns err, which has a class.
func (a *attempt) giveBack(ctx context.Context, err error) error {
	class := queue.ClassOf(err)
	rule := queue.RuleOf(class)
	id, fence := a.claim.Entry.ID, a.claim.Fence
	var stored error
	switch {
	case class == queue.ClassBusy:
		return err // The claim is lost; the job is no longer ours to touch.
	case class == queue.ClassKilled && a.claim.Entry.Class == string(class):
		// The attempt before ended like this one. What cannot be explained is not tried for ever.
		stored = a.bury(ctx, class, err)
		err = queue.Permanent(err)
	case !rule.Retry || rule.Counted && a.delivery.LastAttempt:
		stored = a.bury(ctx, class, err)
	default:
		stored = a.persist(ctx, func(ctx context.Context) error { return a.ledger.Release(ctx, id, fence, string(class)) })
	}
	if stored != nil && !errors.Is(stored, ledger.ErrFenced) {
		// The claim goes stale and the reconciler takes the job up.
		a.log.Error("give the job back", zap.Error(stored))
	}
	return err
}

// bury puts the job into the dead letters.
func (a *attempt) bury(ctx context.Context, class queue.Class, cause error) error {
	message := oneline.Of(cause.Error(), maxErrorDetail)
	r := a.unrun(job.StatusSystemError, fmt.Sprintf("The fleet could not run the job (%s): %s", class, message))
	r, err := a.store(ctx, r, func(ctx context.Context, r job.Result) error {
		return a.ledger.Bury(ctx, a.claim.Entry.ID, a.claim.Fence, string(class), message, r)
	})
	if err == nil {
		a.cfg.Metrics.ended(r, 0)
	}
	return err
}

// store stores a result, cut if need be, and returns it as it was stored.
func (a *attempt) store(ctx context.Context, r job.Result, put func(context.Context, job.Result) error) (job.Result, error) {
	err := a.persist(ctx, func(ctx context.Context) error { return put(ctx, r) })
	var large *ledger.TooLargeError
	switch {
	case errors.As(err, &large):
		// Only now, because measuring costs as much as storing and few results are too large.
		if r, err = fit(r, a.load); err != nil {
			return r, err
		}
	case unencodable(err):
		// A trace that was read but cannot be written is a bug, or a trick that nobody thought of.
		a.log.Error("encode the result", zap.Error(err))
		r = dropTestimony(r, "trace, summary and traceback could not be written and were dropped")
	default:
		return r, err
	}
	a.cfg.Metrics.cut.Inc()
	return r, a.persist(ctx, func(ctx context.Context) error { return put(ctx, r) })
}

// load measures a result against both bounds on its size.
func (a *attempt) load(r job.Result) (float64, error) {
	raw, stored, err := a.ledger.ResultSize(r)
	return max(float64(raw)/job.MaxResultBytes, float64(stored)/float64(a.ledger.MaxResultBytes())), err
}

// persist repeats op while the ledger cannot be reached, for StoreTimeout. It goes on when ctx has ended: the work is done,
// and only has to be written down.
func (r *Runner) persist(ctx context.Context, op func(context.Context) error) error {
	// As a rule once is enough, and the client of the ledger has bounds of its own.
	err := op(context.WithoutCancel(ctx))
	if err == nil || settled(err) {
		return err
	}
	ctx, cancel := detach.Context(ctx, r.cfg.StoreTimeout)
	defer cancel()
	for pause := minStorePause; ; pause = min(2*pause, maxStorePause) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		if err = op(ctx); err == nil || settled(err) {
			return err
		}
	}
}

// settled tells whether the ledger has given its final answer.
func settled(err error) bool {
	var large *ledger.TooLargeError
	return errors.Is(err, ledger.ErrFenced) || errors.Is(err, ledger.ErrTerminal) || errors.Is(err, ledger.ErrNotFound) ||
		errors.As(err, &large) || unencodable(err)
}

// unencodable tells whether a result has no form in JSON.
func unencodable(err error) bool {
	var marshaler *json.MarshalerError
	var value *json.UnsupportedValueError
	return errors.As(err, &marshaler) || errors.As(err, &value)
}
