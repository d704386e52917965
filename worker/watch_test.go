package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

func TestNoJobsWhileTheEngineIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var broken, hanging atomic.Bool
		w := &watcher{slots: 4, lost: func() int { return 1 }, log: zap.NewNop(), ask: func(ctx context.Context) error {
			if hanging.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			if broken.Load() {
				return errors.New("connection refused")
			}
			return nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.run(ctx) }()
		want := func(after time.Duration, slots int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := w.unavailable(); got != slots {
				t.Errorf("%d slots cannot be used, want %d", got, slots)
			}
		}
		want(10*time.Second, 1)
		broken.Store(true)
		want(watchEvery, 1) // one failure may be chance
		want(watchEvery, 4)
		broken.Store(false)
		want(watchEvery, 1)
		hanging.Store(true)
		want(2*watchEvery+2*watchTimeout, 4)
		hanging.Store(false)
		want(2*watchEvery+watchTimeout, 1)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
