package ledger

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/detach"
)

// firstBeat is when a claim is renewed for the first time. Most jobs are done by then and cost Redis nothing here.
const firstBeat = 50 * time.Millisecond

// Hold keeps a claim alive until stop is called, and tells the holder when it has to let go: the
// returned context ends with the cause ErrCanceled when a user canceled the job, within
// a round trip of the wish as long as Redis delivers messages and within Config.BeatEvery else (a wish of before this call is
// found by the first renewal, 50 ms after it); with the
// cause ErrFenced when the claim was lost; or when ctx ends. While Redis cannot be reached the claim is kept.
//
// stop waits for the goroutine of the claim, if it lived long enough to have one; it is idempotent. Call it before Finish, Bury or
// Release, or after; a heartbeat for a job that is finished is harmless.
func (l *Ledger) Hold(ctx context.Context, c Claim) (held context.Context, stop func()) {
	held, cancel := context.WithCancelCause(ctx)
	h := &hold{told: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	h.beat = func() { l.beat(held, c, h.told, h.quit, cancel) }
	leave := l.hub.call(cancelChannel, c.Entry.ID, func() {
		poke(h.told)
		h.start()
	})
	first := time.AfterFunc(min(firstBeat, l.cfg.BeatEvery), func() {
		poke(h.told)
		h.start()
	})
	return held, func() {
		first.Stop()
		leave()
		h.end()
		cancel(context.Canceled)
	}
}

// hold is a claim that is being kept. Most jobs are done before anything is to be done for that; the others get a goroutine.
type hold struct {
	beat       func()
	told       chan struct{} // there is a reason to renew the claim now
	quit, done chan struct{}

	mu             sync.Mutex
	started, ended bool
}

// start starts the goroutine, once, but not behind end.
func (h *hold) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started || h.ended {
		return
	}
	h.started = true
	go func() {
		defer close(h.done)
		h.beat()
	}()
}

// end ends the goroutine and waits for it. It is idempotent.
func (h *hold) end() {
	h.mu.Lock()
	if !h.ended {
		close(h.quit)
	}
	h.ended = true
	started := h.started
	h.mu.Unlock()
	if started {
		<-h.done
	}
}

// beat renews the claim until quit is closed or the claim is lost. Each renewal has
// its own deadline, and goes on when held has ended: the holder needs the claim to clean up and to finish.
func (l *Ledger) beat(held context.Context, c Claim, told <-chan struct{}, quit <-chan struct{}, cancel context.CancelCauseFunc) {
	next := time.NewTimer(l.cfg.BeatEvery)
	defer next.Stop()
	for {
		select {
		case <-quit:
			return
		case <-told:
		case <-next.C:
		}
		next.Reset(l.cfg.BeatEvery)
		ctx, done := detach.Context(held, l.cfg.StaleAfter)
		canceled, err := l.Heartbeat(ctx, c.Entry.ID, c.Fence)
		done()
		switch {
		case errors.Is(err, ErrFenced) || errors.Is(err, ErrNotFound):
			cancel(ErrFenced)
			return
		case err != nil:
			l.cfg.Log.Warn("heartbeat of a claim failed", zap.String("job_id", c.Entry.ID), zap.Error(err))
		case canceled:
			cancel(ErrCanceled)
		}
	}
}
