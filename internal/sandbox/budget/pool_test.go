package budget_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/sandbox/budget"
	"github.com/execra/tracefleet/internal/sandbox/pool"
)

// slowHost is an engine whose sandboxes need a second to go, or go into quarantine.
type slowHost struct {
	quarantined atomic.Int64
	failing     atomic.Bool
}

func (h *slowHost) Launch(context.Context, job.Limits) (sandbox.Sandbox, error) {
	return &slowBox{host: h}, nil
}

type slowBox struct {
	host *slowHost
	once sync.Once
	err  error
}

func (*slowBox) Run(context.Context, job.Job) (sandbox.Outcome, error) {
	return sandbox.Outcome{}, nil
}

func (b *slowBox) Close() error {
	b.once.Do(func() {
		time.Sleep(time.Second)
		if b.host.failing.Load() {
			b.host.quarantined.Add(1)
			b.err = fmt.Errorf("%w: it hangs", sandbox.ErrQuarantined)
		}
	})
	return b.err
}

// warden is a slowHost that keeps count of its quarantine, as the real engine does.
type warden struct{ *slowHost }

func (w warden) Quarantined() int { return int(w.quarantined.Load()) }

// over stands a budget for one job of the default limits over a running pool over next.
func over(t *testing.T, next sandbox.Launcher, quarantined func() int) (l *budget.Launcher, stop func()) {
	t.Helper()
	p, err := pool.New(next, pool.Config{MinRetry: 10 * time.Second}, nil, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) }) // what it leaves in quarantine is the test's doing
	l, err = budget.New(p, budget.Config{Bytes: job.DefaultLimits().MemoryBytes, Quarantined: quarantined})
	if err != nil {
		t.Fatal(err)
	}
	return l, func() { cancel(); running.Wait() }
}

func launch(t *testing.T, l sandbox.Launcher, d time.Duration) (sandbox.Sandbox, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return l.Launch(ctx, job.DefaultLimits())
}

func TestMemoryOverAPoolIsHeldUntilTheRemoval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, stop := over(t, &slowHost{}, nil)
		defer stop()
		box, err := launch(t, l, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		if err := errors.Join(box.Close(), box.Close()); err != nil || time.Since(before) != 0 {
			t.Errorf("Close: %v after %v, want nil at once", err, time.Since(before))
		}
		if box, err = launch(t, l, time.Minute); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(before); waited < time.Second {
			t.Errorf("the memory was free after %v, before the sandbox was gone", waited)
		}
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestMemoryOverAPoolIsHeldInQuarantine(t *testing.T) {
	t.Parallel()
	for _, counts := range []bool{true, false} {
		t.Run(fmt.Sprintf("the engine counts its quarantine %v", counts), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				host := &slowHost{}
				host.failing.Store(true)
				var next sandbox.Launcher = retried{host}
				var quarantined func() int
				if counts {
					next, quarantined = warden{host}, warden{host}.Quarantined
				}
				l, stop := over(t, next, quarantined)
				defer stop()
				box, err := launch(t, l, time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				if err := box.Close(); err != nil {
					t.Fatal(err)
				}
				if _, err := launch(t, l, 5*time.Second); !errors.Is(err, sandbox.ErrNoRoom) {
					t.Errorf("beside a quarantined one: got %v, want ErrNoRoom", err)
				}
				host.failing.Store(false)
				host.quarantined.Store(0)
				if box, err = launch(t, l, time.Minute); err != nil {
					t.Fatalf("after the quarantine: %v", err)
				}
				if err := box.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// retried is a slowHost whose sandboxes can be closed again.
type retried struct{ *slowHost }

func (r retried) Launch(context.Context, job.Limits) (sandbox.Sandbox, error) {
	return &retriedBox{slowBox{host: r.slowHost}}, nil
}

type retriedBox struct{ slowBox }

func (b *retriedBox) Close() error {
	again := slowBox{host: b.host}
	return again.Close()
}
