package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/oneline"
)

// maxMessage is how many characters of a message a dead letter keeps.
const maxMessage = 500

// Finish ends a job with its result: StateCanceled when the result's status is
// canceled, StateFinished else. It tells everybody who waits. A repetition with the same fence does nothing.
//
// Errors: ErrFenced when the claim is not the newest; ErrTerminal when the job was ended under another claim;
// ErrNotFound; *TooLargeError.
func (l *Ledger) Finish(ctx context.Context, id string, fence int64, r job.Result) error {
	state := StateFinished
	if r.Status == job.StatusCanceled {
		state = StateCanceled
	}
	return l.end(ctx, "finish", ending{id: id, fence: fence, state: state, result: r})
}

// Bury ends a job that the fleet could not run: it becomes StateDead and is listed in the
// dead letters under class, an error class, with message, one line that says why. r is its result, with status system_error.
//
// Errors: as Finish.
func (l *Ledger) Bury(ctx context.Context, id string, fence int64, class, message string, r job.Result) error {
	if r.Status != job.StatusSystemError {
		return fmt.Errorf("bury %s: the status of its result is %q, not %q", id, r.Status, job.StatusSystemError)
	}
	class = word(class)
	err := l.end(ctx, "bury", ending{
		id: id, fence: fence, state: StateDead, class: class, message: oneline.Of(message, maxMessage), ttl: l.cfg.DeadTTL, result: r,
	})
	if err == nil {
		l.cfg.Metrics.buried.Inc()
	}
	return err
}

// ending is one way for a job to end.
type ending struct {
	id      string
	fence   int64
	state   State
	class   string
	message string
	ttl     time.Duration // 0: the job's own retention
	result  job.Result
}

func (l *Ledger) end(ctx context.Context, op string, x ending) error {
	if x.result.ID != x.id || !x.result.Status.Valid() {
		return fmt.Errorf("%s %s: not a result of it: id %.40q, status %.40q", op, x.id, x.result.ID, x.result.Status)
	}
	blob, err := l.codec.encodeResult(x.result, l.cfg.MaxResultBytes)
	if err != nil {
		return fmt.Errorf("%s %s: %w", op, x.id, err)
	}
	blob = l.cfg.Keys.seal(sealedResult, x.id, blob)
	got, err := finishScript.Run(ctx, l.rdb, jobKeys(x.id), x.fence, blob, string(x.state), string(x.result.Status),
		x.class, x.message, x.ttl.Milliseconds(), DefaultRetention.Milliseconds(), x.id).Slice()
	if err != nil {
		return reply(op, x.id, err)
	}
	code, rest := codeOf(got)
	if err := l.refusal(op, x.id, code, rest); err != nil {
		return err
	}
	l.cfg.Metrics.finished.WithLabelValues(string(x.result.Status)).Inc()
	l.cfg.Metrics.resultBytes.Observe(float64(len(blob)))
	switch {
	case x.state != StateDead:
		l.news.ended(ctx, x.id)
	case l.listDeadByID(ctx, x.id) == nil:
		l.leaveOpenDead(ctx, x.id)
	default:
		// It stays in the index of open jobs, from where Overdue puts it into the dead letters.
	}
	return nil
}

// Cancel cancels a job for good. It returns the state the job is in then:
// StateCanceled when it was queued, and will never run; StateRunning when it runs, and its
// worker was told; else the state it had ended in before.
// Errors: ErrNotFound; ErrCorrupt.
func (l *Ledger) Cancel(ctx context.Context, id string) (State, error) {
	const why = "canceled by a user before it started"
	// The job may be claimed or released between the look and the script; that cannot go on for long.
	for range 5 {
		e, err := l.Get(ctx, id)
		if err != nil {
			return "", err
		}
		var blob []byte
		if e.State == StateQueued {
			r, err := l.unrun(ctx, e, job.StatusCanceled, why)
			if err != nil {
				return "", err
			}
			if blob, err = l.codec.encodeResult(r, l.cfg.MaxResultBytes); err != nil {
				return "", fmt.Errorf("cancel %s: %w", id, err)
			}
			blob = l.cfg.Keys.seal(sealedResult, id, blob)
		}
		got, err := cancelScript.Run(ctx, l.rdb, jobKeys(id), id, DefaultRetention.Milliseconds(), blob).Slice()
		if err != nil {
			return "", reply("cancel", id, err)
		}
		switch code, rest := codeOf(got); code {
		case "missing":
			return "", fmt.Errorf("cancel %s: %w", id, ErrNotFound)
		case "state":
			return l.canceled(ctx, e, State(text(rest, 0))), nil
		}
	}
	return "", fmt.Errorf("cancel %s: %w", id, ErrBusy)
}

// canceled does what follows a cancellation that found the job in the state before.
func (l *Ledger) canceled(ctx context.Context, before Entry, after State) State {
	if before.State == StateQueued && after == StateCanceled {
		l.cfg.Metrics.finished.WithLabelValues(string(job.StatusCanceled)).Inc()
		l.leaveOpen(ctx, before.ID)
	}
	return after
}
