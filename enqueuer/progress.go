package main

import (
	"context"
	"time"

	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
)

// When a person is told that they are waiting, and for what.
const (
	progressAfter = 300 * time.Millisecond
	progressEvery = 200 * time.Millisecond
	hintAfter     = 5 * time.Second
)

// progress tells a person on standard error how long the wait for id takes,
// until stop is called, which clears the line. After a while it says, once and
// also without a terminal, when no worker has taken the job.
func (s *session) progress(ctx context.Context, id string, state func(context.Context, string) (ledger.Entry, error)) (stop func()) {
	if s.Quiet {
		return func() {}
	}
	live := terminalWidth(s.err) > 0 && s.getenv("TERM") != "dumb"
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		start := time.Now()
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		shown, hinted := false, false
		for {
			select {
			case <-ctx.Done():
				if shown {
					s.notice("\r\x1b[K")
				}
				return
			case <-ticker.C:
			}
			waited := time.Since(start)
			if !hinted && waited > hintAfter {
				hinted = true
				if e, err := state(ctx, id); err == nil && e.State == ledger.StateQueued {
					s.notice("%sno worker has taken the job yet; is one running? (worker --redis %s)\n", clearing(shown), queue.ShownURL(s.Redis))
				}
			}
			if live && waited > progressAfter {
				shown = true
				s.notice("\r\x1b[Kwaiting for the result … %d s", int(waited.Seconds()))
			}
		}
	}()
	return func() { cancel(); <-done }
}

func clearing(shown bool) string {
	if shown {
		return "\r\x1b[K"
	}
	return ""
}
