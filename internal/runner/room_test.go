package runner_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/runner"
	"github.com/execra/tracefleet/internal/sandbox/pool"
)

// TestABusyHostCostsNoAttempt waits in vain for a sandbox of a real pool, because of a busy host and because of a
// broken engine.
func TestABusyHostCostsNoAttempt(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.create(nil)
	sandboxes, err := pool.New(f.launcher, pool.Config{Warm: -1, Slots: 1, MaxWait: 300 * time.Millisecond, MinBackoff: time.Hour, MaxBackoff: time.Hour},
		nil, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := sandboxes.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	r, err := runner.New(f.store, sandboxes, f.cfg)
	if err != nil {
		t.Fatal(err)
	}

	only, err := sandboxes.Launch(ctx, job.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Handle(ctx, lastDelivery())
	f.wantFault(err, queue.ClassNoRoom, ledger.StateQueued)
	if n := f.entry().Attempts; n != 0 {
		t.Errorf("busy host: got %d attempts, want 0", n)
	}

	f.launcher.FailLaunches(errors.New("engine is on fire"))
	if err := only.Close(); err != nil {
		t.Error(err)
	}
	for n := range 2 { // the first fails with the engine, the second while the pool leaves it alone
		_, err = r.Handle(ctx, delivery())
		f.wantFault(err, queue.ClassEngine, ledger.StateQueued)
		if got := f.entry().Attempts; got != n+1 {
			t.Errorf("broken engine: got %d attempts, want %d", got, n+1)
		}
	}
}
