package docker

import (
	"context"
	"fmt"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/detach"
	"github.com/execra/tracefleet/internal/sandbox"
)

// Close kills the container, removes it with everything that belongs to it,
// and asks the engine until it is gone. It may be called from a goroutine of
// its own while the outcome is already on its way.
func (b *box) Close() error {
	b.mu.Lock()
	first := !b.closing
	b.closing = true
	b.mu.Unlock()
	if !first {
		<-b.closed
		return b.closeErr
	}
	defer close(b.closed)
	b.interrupt(endClosed)
	b.awaitLeave()
	b.closeErr = b.e.remove(context.Background(), b.name, b.mayRun)
	if b.conn != nil {
		// Its peer is gone; an error here says nothing new.
		_ = b.conn.Close()
	}
	b.stopWaiting()
	if b.waiting {
		<-b.waited
	}
	return b.closeErr
}

// awaitLeave waits a moment for the end of a container whose supervisor has
// said goodbye: the engine removes a dead container in a fraction of the time
// that it needs for one that is dying.
func (b *box) awaitLeave() {
	const moment = time.Second
	b.mu.Lock()
	leaving := b.leaving
	b.mu.Unlock()
	if !leaving {
		return
	}
	bound := time.NewTimer(moment)
	defer bound.Stop()
	select {
	case <-b.waited:
	case <-bound.C:
	}
}

// remove removes the container called name and returns nil when the engine
// says that there is no such container. Without that proof a container that may run goes
// into quarantine. One that was never started, and may not even exist, takes nothing from the
// host, so it must not take a slot either while an engine is away: Reap removes it when it turns up.
func (e *Engine) remove(ctx context.Context, name string, mayRun bool) error {
	err := e.removeOnce(ctx, name)
	if err == nil || !mayRun {
		e.settled(name)
		return nil
	}
	// While an engine is away, the reaper tries often.
	level := zap.DebugLevel
	if e.suspect(name) {
		level = zap.ErrorLevel
	}
	e.log.Log(level, "sandbox in quarantine", zap.String("container", name), zap.Error(err))
	return fmt.Errorf("%w: container %s: %w", sandbox.ErrQuarantined, name, err)
}

// removeOnce makes the engine remove a container and proves that it is gone.
func (e *Engine) removeOnce(ctx context.Context, name string) error {
	ctx, cancel := detach.Context(ctx, e.cfg.RemoveTimeout)
	defer cancel()
	err := e.cli.ContainerRemove(ctx, name, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	if err != nil && !cerrdefs.IsConflict(err) {
		return e.failed(opRemove, err)
	}
	// A conflict means that a removal is under way already. Either way, only
	// the engine's word that there is nothing is proof.
	return e.waitGone(ctx, name)
}

// waitGone asks for a container until there is none or ctx is done.
func (e *Engine) waitGone(ctx context.Context, name string) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for delay := 5 * time.Millisecond; ; delay = min(2*delay, time.Second) {
		_, err := e.cli.ContainerInspect(ctx, name)
		if cerrdefs.IsNotFound(err) {
			return nil
		}
		if ctx.Err() != nil {
			return e.failed(opRemove, fmt.Errorf("still there: %w", ctx.Err()))
		}
		if err != nil {
			return e.failed(opInspect, err)
		}
		pause.Reset(delay)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}
