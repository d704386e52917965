package main

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// How often the engine is asked, how long it has for an answer, and after how many failures in a row it counts as away.
const (
	watchEvery   = 2 * time.Second
	watchTimeout = 5 * time.Second
	watchMisses  = 2
)

// watcher asks the engine whether it answers. While it does not the worker takes no jobs: each would fail here and
// lose an attempt, while a worker on another host could run it.
type watcher struct {
	ask   func(ctx context.Context) error
	slots int
	// lost is how many slots are taken by sandboxes that could not be proven gone.
	lost func() int
	log  *zap.Logger
	away atomic.Bool
}

// unavailable is how many slots cannot be used.
func (w *watcher) unavailable() int {
	if w.away.Load() {
		return w.slots
	}
	return w.lost()
}

// run asks until ctx ends.
func (w *watcher) run(ctx context.Context) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for misses := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		asking, cancel := context.WithTimeout(ctx, watchTimeout)
		err := w.ask(asking)
		cancel()
		if err == nil {
			misses = 0
			if w.away.Swap(false) {
				w.log.Info("the engine answers again; taking jobs")
			}
			continue
		}
		if misses++; misses >= watchMisses && ctx.Err() == nil && !w.away.Swap(true) {
			w.log.Error("the engine does not answer; taking no jobs until it does", zap.Error(err))
		}
	}
}
