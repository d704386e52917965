package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
)

// retryLook is how soon Wait and Change look again when Redis did not answer.
const retryLook = time.Second

// stateChannel tells the ids of jobs that were claimed, given back, or taken from a dead worker.
const stateChannel = "tf:state"

// Wait returns the result of a job as soon as there is one. Any number of calls share
// one subscription; there is no polling. Once it has seen the job, Wait outlasts a Redis that is away for a while.
//
// Errors: ErrNotFound, also when the job's retention ends meanwhile;
// ErrCorrupt; ErrClosed; the cause of ctx, with the last error of Redis if there was one.
func (l *Ledger) Wait(ctx context.Context, id string) (job.Result, error) {
	// Listening comes before looking: what ends in between is told.
	told, leave := l.hub.listen(doneChannel, id)
	defer leave()
	var w watch
	look := l.lookOnce
	for {
		r, err := look(ctx, id)
		look = l.lookOnce
		if err == nil {
			return r, nil
		}
		if errors.Is(err, ErrNotFinished) {
			err = nil
		}
		again, err := w.looked(ctx, err)
		if err != nil {
			return job.Result{}, err
		}
		select {
		case <-told:
			look = l.Result // as a rule it is there
		case <-again:
		case <-l.hub.closed:
			return job.Result{}, fmt.Errorf("wait for %s: %w", id, ErrClosed)
		case <-ctx.Done():
			return job.Result{}, errors.Join(fmt.Errorf("wait for %s: %w", id, context.Cause(ctx)), w.last)
		}
	}
}

// watch is how those who look at a job again and again take errors: once the job was seen, Redis may be away.
type watch struct {
	seen bool
	last error // of Redis, while it is away
}

// looked takes the end of a look that did not find what is waited for, with its error if it had one. again says when to look without being
// told; nil is never. The error returned ends the watch.
func (w *watch) looked(ctx context.Context, err error) (again <-chan time.Time, end error) {
	switch {
	case err == nil:
		w.seen, w.last = true, nil
		return nil, nil
	case !w.seen || errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) || ctx.Err() != nil:
		return nil, err
	default:
		w.last = err
		return time.After(retryLook), nil
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

// Change returns the entry of a job as soon as its state is not from any more, so with an empty
// from at once. It shares the subscription of Wait, and there is no polling. Whoever names a state has seen the job, so
// then Change outlasts a Redis that is away for a while.
// Errors: as Wait.
func (l *Ledger) Change(ctx context.Context, id string, from State) (Entry, error) {
	moved, leaveMoved := l.hub.listen(stateChannel, id)
	defer leaveMoved()
	done, leaveDone := l.hub.listen(doneChannel, id)
	defer leaveDone()
	w := watch{seen: from != ""}
	for {
		e, err := l.Get(ctx, id)
		if err == nil && e.State != from {
			return e, nil
		}
		again, err := w.looked(ctx, err)
		if err != nil {
			return e, err
		}
		select {
		case <-moved:
		case <-done:
		case <-again:
		case <-l.hub.closed:
			return e, fmt.Errorf("watch %s: %w", id, ErrClosed)
		case <-ctx.Done():
			return e, errors.Join(fmt.Errorf("watch %s: %w", id, context.Cause(ctx)), w.last)
		}
	}
}

// announce tells those who watch a job that its state has changed. What is lost here they
// find by themselves, later.
func (l *Ledger) announce(ctx context.Context, id string) {
	_ = l.rdb.Publish(ctx, stateChannel, id).Err()
}

// Endings returns the ids of jobs that become terminal from now on, until ctx ends or the Ledger is closed; then the
// channel is closed. A reader that is slower than the jobs misses some.
// Errors: ErrClosed.
func (l *Ledger) Endings(ctx context.Context) (<-chan string, error) {
	return l.hub.read(ctx, doneChannel)
}

// read returns the ids that are told on a channel.
func (h *hub) read(ctx context.Context, channel string) (<-chan string, error) {
	c := make(chan string, readerBuffer)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return nil, ErrClosed
	}
	h.all[c] = channel
	h.hear(channel)
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
