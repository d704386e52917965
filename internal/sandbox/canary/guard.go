package canary

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
)

var _ sandbox.Launcher = (*Guard)(nil)

// Config is what a Guard needs to know. The zero value of a field means its default.
type Config struct {
	// Every is how long a good look counts; an hour by default.
	Every time.Duration
	// RetryEvery is the time until the next look when one could not be had; five seconds by default.
	RetryEvery time.Duration
	// LookTimeout bounds a look; a minute by default.
	LookTimeout time.Duration
	// AwaitChange blocks until what makes the sandboxes may have changed, as
	// after a restart of the engine. An error means that it could not watch for
	// that. nil means that nothing ever changes.
	AwaitChange func(ctx context.Context) error
}

func (c Config) withDefaults() Config {
	c.Every = cmp.Or(c.Every, time.Hour)
	c.RetryEvery = cmp.Or(c.RetryEvery, 5*time.Second)
	c.LookTimeout = cmp.Or(c.LookTimeout, time.Minute)
	if c.AwaitChange == nil {
		c.AwaitChange = func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
	}
	return c
}

// Guard is a Launcher over another one that launches only while the last look
// into a sandbox was good. It is safe for concurrent use.
type Guard struct {
	next sandbox.Launcher
	// looked is what the looks are taken through: not a pool, whose sandboxes may be older than the change.
	looked sandbox.Launcher
	cfg    Config
	log    *zap.Logger

	mu sync.Mutex
	// fault is why nothing may be launched; nil when the last look was good.
	fault error
	// settled is closed while fault is the outcome of a look, so that a launch
	// can wait for the one that is due.
	settled chan struct{}
}

// errUnseen is the fault of a Guard that has not looked yet.
var errUnseen = errors.New("no sandbox has been looked into since the engine may have changed")

// New returns a Guard of next that looks through looked. Nothing is launched
// before the first good Look.
func New(next, looked sandbox.Launcher, cfg Config, log *zap.Logger) *Guard {
	return &Guard{next: next, looked: looked, cfg: cfg.withDefaults(), log: log, fault: errUnseen, settled: make(chan struct{})}
}

// Launch launches a sandbox, or fails when the last look was not good. When a
// look is due it waits for that first, at most for Config.LookTimeout.
func (g *Guard) Launch(ctx context.Context, l job.Limits) (sandbox.Sandbox, error) {
	if err := g.await(ctx); err != nil {
		return nil, fmt.Errorf("launch sandbox: %w", err)
	}
	return g.next.Launch(ctx, l)
}

// await waits for the look that is due, if any, and returns its fault.
func (g *Guard) await(ctx context.Context) error {
	g.mu.Lock()
	settled := g.settled
	g.mu.Unlock()
	bound := time.NewTimer(g.cfg.LookTimeout)
	defer bound.Stop()
	select {
	case <-settled:
	case <-bound.C:
	case <-ctx.Done():
		return fmt.Errorf("wait for a look into a sandbox: %w", context.Cause(ctx))
	}
	return g.Fault()
}

// Fault is why nothing is launched, nil when there is no reason.
func (g *Guard) Fault() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fault
}

// settle notes the outcome of a look.
func (g *Guard) settle(fault error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if errors.Is(g.fault, errUnseen) {
		close(g.settled)
	}
	g.fault = fault
}

// doubt notes that no look counts any more.
func (g *Guard) doubt() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !errors.Is(g.fault, errUnseen) {
		g.fault, g.settled = errUnseen, make(chan struct{})
	}
}

// Look looks into a sandbox now. After a *FailedError nothing is launched; after
// any other error what was so far goes on.
func (g *Guard) Look(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, g.cfg.LookTimeout, fmt.Errorf("no look within %s", g.cfg.LookTimeout))
	defer cancel()
	start := time.Now()
	err := Look(ctx, g.looked)
	var failed *FailedError
	switch {
	case err == nil:
		g.settle(nil)
		g.log.Info("looked into a sandbox: it holds what it promises", zap.Duration("took", time.Since(start)))
	case errors.As(err, &failed), errors.Is(err, sandbox.ErrRefused):
		g.settle(err)
	}
	return err
}

// Run looks again every hour and after each change, until ctx ends or a
// sandbox does not hold what it promises, which is its error. While a look
// cannot be had after a change, nothing is launched.
func (g *Guard) Run(ctx context.Context) error {
	changed := make(chan struct{}, 1) // one is enough, however many came
	watching := make(chan struct{})
	ctx, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		<-watching
	}()
	go func() {
		defer close(watching)
		g.watch(ctx, changed)
	}()
	next := time.NewTimer(g.cfg.Every)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			g.log.Info("the engine may have changed: looking into a sandbox before any further job")
		case <-next.C:
		}
		err := g.Look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, sandbox.ErrRefused):
			return err
		case err != nil:
			g.log.Warn("could not look into a sandbox", zap.Error(err))
			next.Reset(g.cfg.RetryEvery)
		default:
			next.Reset(g.cfg.Every)
		}
	}
}

// watch tells of changes until ctx ends.
func (g *Guard) watch(ctx context.Context, changed chan<- struct{}) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	blind := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		err := g.cfg.AwaitChange(ctx)
		if ctx.Err() != nil {
			return
		}
		wasBlind := blind
		blind = err != nil
		if blind && wasBlind {
			// It was looked since; one that cannot be watched at all is looked at by the hour.
			pause.Reset(g.cfg.RetryEvery)
			continue
		}
		g.doubt()
		select {
		case changed <- struct{}{}:
		default:
		}
		pause.Reset(0)
		if err != nil {
			g.log.Warn("cannot watch the engine for changes", zap.Error(err))
			pause.Reset(g.cfg.RetryEvery)
		}
	}
}
