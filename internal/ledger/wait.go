package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
)

// retryLook is how soon Wait looks again when Redis did not answer.
const retryLook = time.Second

// Wait returns the result of a job as soon as there is one. Any number of calls share
// one subscription; there is no polling. Once it has seen the job, Wait outlasts a Redis that is away for a while.
//
// Errors: ErrNotFound, also when the job's retention ends meanwhile;
// ErrCorrupt; ErrClosed; the cause of ctx, with the last error of Redis if there was one.
func (l *Ledger) Wait(ctx context.Context, id string) (job.Result, error) {
	// Listening comes before looking: what ends in between is told.
	told, leave := l.hub.listen(doneChannel, id)
	defer leave()
	var seen bool
	var last error
	for {
		var again <-chan time.Time
		r, err := l.lookOnce(ctx, id)
		switch {
		case err == nil:
			return r, nil
		case errors.Is(err, ErrNotFinished):
			seen, last = true, nil
		case !seen || errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) || ctx.Err() != nil:
			return job.Result{}, err
		default:
			last, again = err, time.After(retryLook)
		}
		select {
		case <-told:
		case <-again:
		case <-l.hub.closed:
			return job.Result{}, fmt.Errorf("wait for %s: %w", id, ErrClosed)
		case <-ctx.Done():
			return job.Result{}, errors.Join(fmt.Errorf("wait for %s: %w", id, context.Cause(ctx)), last)
		}
	}
}

// lookOnce returns the result of a job, or ErrNotFinished. The state is looked at first, because it is small.
func (l *Ledger) lookOnce(ctx context.Context, id string) (job.Result, error) {
	if !job.ValidID(id) {
		return job.Result{}, fmt.Errorf("wait for %.40q: %w", id, ErrNotFound)
	}
	state, err := l.rdb.HGet(ctx, entryKey(id), "state").Result()
	switch {
	case errors.Is(err, redis.Nil):
		return job.Result{}, fmt.Errorf("wait for %s: %w", id, ErrNotFound)
	case err != nil:
		return job.Result{}, reply("wait for", id, err)
	case !State(state).Terminal():
		return job.Result{}, ErrNotFinished
	}
	return l.Result(ctx, id)
}

// Cancels returns the ids of running jobs that users cancel from now on, until ctx ends
// or the Ledger is closed; then the channel is closed. A reader that is slower than
// the users misses some. Hold needs none of this; it is for those who watch.
func (l *Ledger) Cancels(ctx context.Context) (<-chan string, error) {
	c := make(chan string, cancelsBuffer)
	h := &l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return nil, ErrClosed
	}
	h.all[c] = struct{}{}
	h.start()
	leave := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if _, ok := h.all[c]; ok {
			delete(h.all, c)
			close(c)
		}
	}
	context.AfterFunc(ctx, leave)
	context.AfterFunc(h.ctx, leave)
	return c, nil
}
