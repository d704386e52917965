package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/execra/tracefleet/internal/ledger"
)

// errWaitOver is why a wait ends whose time is over; errUnseen means that nobody knows where the job stands then.
var (
	errWaitOver = errors.New("the wait is over")
	errUnseen   = errors.New("no look at the job after the wait")
)

// lookTimeout bounds the look at the end of a wait. Clients expect their answer soon after the time they asked for.
const lookTimeout = 2 * time.Second

// enterWait counts one more who waits, unless too many wait already, in all or with the same token.
func (a *API) enterWait(r *http.Request) bool {
	if !a.waiters.take(facts(r).identity.Name, 1) {
		return false
	}
	a.metrics.waiters.Set(float64(a.waiters.taken()))
	return true
}

func (a *API) leaveWait(r *http.Request) {
	a.waiters.give(facts(r).identity.Name, 1)
	a.metrics.waiters.Set(float64(a.waiters.taken()))
}

// untilStop returns a context that ends with ctx, and with a cause when the server is stopping.
func (a *API) untilStop(ctx context.Context) (context.Context, func()) {
	ctx, stop := context.WithCancelCause(ctx)
	forget := context.AfterFunc(a.stopping, func() { stop(errStopping) })
	return ctx, func() { forget(); stop(nil) }
}

// await waits for the end of a job. It returns the entry as it is when the time is over, when the server is stopping, or
// when too many wait already. With errUnseen, for a Redis that is away, the entry is as it was before.
func (a *API) await(r *http.Request, entry ledger.Entry, wait time.Duration) (ledger.Entry, error) {
	if wait <= 0 || entry.State.Terminal() || !a.enterWait(r) {
		return entry, nil
	}
	defer a.leaveWait(r)
	timed, cancel := context.WithTimeoutCause(r.Context(), wait, errWaitOver)
	defer cancel()
	ctx, done := a.untilStop(timed)
	defer done()
	for !entry.State.Terminal() {
		next, err := a.cfg.Book.Change(ctx, entry.ID, entry.State)
		switch {
		case err == nil:
			entry = next
		case a.waitEnded(ctx):
			return a.lastLook(r.Context(), entry)
		default:
			return entry, err
		}
	}
	return entry, nil
}

// lastLook returns the entry as it is now: news of it does not come from a Redis that is away, and so silence tells nothing.
func (a *API) lastLook(ctx context.Context, entry ledger.Entry) (ledger.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	now, err := a.cfg.Desk.Get(ctx, entry.ID)
	if err != nil {
		return entry, fmt.Errorf("%w: %w", errUnseen, err)
	}
	return now, nil
}

// waitEnded tells that a wait ended for its time or for the server, whatever was under way in it.
func (a *API) waitEnded(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, errWaitOver) || errors.Is(cause, errStopping)
}
