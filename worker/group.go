package main

import (
	"context"
	"errors"
	"os"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/execra/tracefleet/internal/ops"
)

// errStopped is the cause that ends the parts beside the consumer.
var errStopped = errors.New("the worker has stopped taking jobs")

// part is something that runs until its context ends.
type part func(ctx context.Context) error

// consumer is what takes jobs and has them run.
type consumer interface {
	// Run takes jobs until ctx ends, and then drains.
	Run(ctx context.Context) error
	// Hurry cuts a drain short.
	Hurry()
}

// group is everything that runs in a worker.
type group struct {
	consumer consumer
	// beside are needed while the consumer runs, also while it drains.
	beside  []part
	checks  *ops.Checks
	signals <-chan os.Signal
	log     *zap.Logger
}

// runGroup runs everything until a signal, the end of ctx or the first error,
// and returns when nothing runs any more.
func runGroup(ctx context.Context, g group) error {
	// stop ends with ctx, or with the first error as its cause.
	parts, stop := errgroup.WithContext(ctx)
	// The consumer drains when it is told to, and the parts it needs end after
	// it, whatever the reason to stop: each has a context of its own.
	intake, drain := context.WithCancel(context.WithoutCancel(ctx))
	defer drain()
	partsCtx, stopParts := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopParts(nil)
	for _, run := range g.beside {
		parts.Go(func() error {
			err := run(partsCtx)
			if err != nil && partsCtx.Err() != nil {
				g.log.Debug("part ended", zap.Error(err))
				return nil
			}
			return err
		})
	}
	parts.Go(func() error {
		g.watch(stop, partsCtx, drain)
		return nil
	})
	parts.Go(func() error {
		defer stopParts(errStopped)
		return g.consumer.Run(intake)
	})
	err := parts.Wait()
	g.log.Info("worker has stopped")
	return err
}

// watch drains at the first signal or the end of stop, and hurries at the next
// signal. It returns at the latest when the consumer has ended, and with it parts.
func (g group) watch(stop, parts context.Context, drain func()) {
	select {
	case s := <-g.signals:
		g.log.Info("worker is draining", zap.Stringer("signal", s))
	case <-stop.Done():
		g.log.Info("worker is draining", zap.NamedError("cause", context.Cause(stop)))
	case <-parts.Done():
	}
	g.checks.Drain()
	drain()
	select {
	case s := <-g.signals:
		g.log.Info("worker is hurrying", zap.Stringer("signal", s))
		g.consumer.Hurry()
	case <-parts.Done():
	}
}

// reaper removes what dead workers left on an engine.
type reaper interface {
	Reap(ctx context.Context) (n int, err error)
	// Quarantined is how many sandboxes could not be proven gone. Each takes a slot.
	Quarantined() int
}

// reapEvery is how often leftovers are looked for; reapAgain is how often while some take slots: an engine that
// was away comes back at any moment.
const (
	reapEvery = 30 * time.Second
	reapAgain = 3 * time.Second
)

// reap looks for leftovers until ctx ends. A failure is no reason to stop: the next look may succeed.
func reap(ctx context.Context, engine reaper, log *zap.Logger) error {
	ticker := time.NewTicker(reapAgain)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if engine.Quarantined() == 0 && time.Since(last) < reapEvery {
			continue
		}
		last = time.Now()
		if n, err := engine.Reap(ctx); err != nil && ctx.Err() == nil {
			log.Warn("remove what dead workers left", zap.Error(err))
		} else if n > 0 {
			log.Info("removed what dead workers left", zap.Int("containers", n))
		}
	}
}
