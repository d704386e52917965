package detach_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execra/tracefleet/internal/detach"
)

type key struct{}

func TestContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent, cancelParent := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
		cancelParent()
		start := time.Now()

		ctx, cancel := detach.Context(parent, time.Minute)
		defer cancel()
		if err := ctx.Err(); err != nil {
			t.Errorf("got %v from a fresh context, want it alive although its parent is cancelled", err)
		}
		if got := ctx.Value(key{}); got != "kept" {
			t.Errorf("got value %v, want the parent's", got)
		}
		<-ctx.Done()
		if got := time.Since(start); got != time.Minute {
			t.Errorf("ended after %s, want 1m", got)
		}
		if err := ctx.Err(); err != context.DeadlineExceeded {
			t.Errorf("got %v, want DeadlineExceeded", err)
		}
	})
}
