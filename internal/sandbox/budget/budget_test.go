package budget

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/sandbox/fake"
	"github.com/execra/tracefleet/internal/sandbox/sandboxtest"
)

const mib = 1 << 20

func limitsOf(bytes int64) job.Limits {
	l := job.DefaultLimits()
	l.MemoryBytes = bytes
	return l
}

func newLauncher(t *testing.T, next sandbox.Launcher, cfg Config) *Launcher {
	t.Helper()
	l, err := New(next, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestConformance(t *testing.T) {
	t.Parallel()
	sandboxtest.Run(t, func(t *testing.T) sandbox.Launcher {
		inner := fake.New()
		return probed{newLauncher(t, inner, Config{Bytes: 64 << 30}), inner}
	})
}

// probed tells the suite what is left.
type probed struct {
	*Launcher
	inner *fake.Launcher
}

// Remaining is that of the launcher below.
func (p probed) Remaining(ctx context.Context) (int, error) { return p.inner.Remaining(ctx) }

func TestSumOfLimitsIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := fake.New()
		l := newLauncher(t, inner, Config{Bytes: 1000 * mib})
		first, err := l.Launch(t.Context(), limitsOf(700*mib))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := l.Launch(ctx, limitsOf(400*mib)); !errors.Is(err, sandbox.ErrNoRoom) {
			t.Errorf("over the budget: got %v, want ErrNoRoom", err)
		}
		if n := len(inner.Launches()); n != 1 {
			t.Errorf("%d launches, want 1", n)
		}
		second := make(chan error, 1)
		go func() {
			box, err := l.Launch(t.Context(), limitsOf(400*mib))
			if err == nil {
				err = box.Close()
			}
			second <- err
		}()
		synctest.Wait()
		if err := errors.Join(first.Close(), first.Close()); err != nil {
			t.Error(err)
		}
		if err := <-second; err != nil {
			t.Errorf("with room again: %v", err)
		}
		if _, err := l.Launch(t.Context(), limitsOf(1001*mib)); !errors.Is(err, sandbox.ErrRefused) {
			t.Errorf("larger than the budget: got %v, want ErrRefused", err)
		}
		inner.FailLaunches(errors.New("the engine is away"))
		for range 3 {
			if box, err := l.Launch(t.Context(), limitsOf(1000*mib)); err == nil {
				_ = box.Close()
			}
		}
		if l.used != 0 {
			t.Errorf("%d bytes are taken, want 0", l.used)
		}
	})
}

func TestQuarantineKeepsItsMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := fake.New()
		var quarantined atomic.Int64
		l := newLauncher(t, inner, Config{Bytes: 500 * mib, Quarantined: func() int { return int(quarantined.Load()) }})
		inner.Script(fake.Step{CloseErr: fmt.Errorf("%w: it hangs", sandbox.ErrQuarantined)})
		box, err := l.Launch(t.Context(), limitsOf(300*mib))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := box.Run(t.Context(), job.Job{Limits: limitsOf(300 * mib)}); err != nil {
			t.Fatal(err)
		}
		quarantined.Store(1)
		if err := box.Close(); !errors.Is(err, sandbox.ErrQuarantined) {
			t.Fatalf("Close: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := l.Launch(ctx, limitsOf(300*mib)); !errors.Is(err, sandbox.ErrNoRoom) {
			t.Errorf("beside a quarantined one: got %v, want ErrNoRoom", err)
		}
		time.AfterFunc(2*time.Second, func() { quarantined.Store(0) })
		later, err := l.Launch(t.Context(), limitsOf(300*mib))
		if err != nil {
			t.Fatalf("after the quarantine: %v", err)
		}
		if err := later.Close(); err != nil {
			t.Error(err)
		}
	})
}
