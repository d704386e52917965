package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"go.uber.org/zap"
)

// Reap removes what has no owner any more: containers of this fleet that an
// earlier life of a worker of this name left, containers of any worker of the
// fleet whose deadline has passed or that have not run for a while, and what is in quarantine here. It returns
// how many containers it removed; an error names those that it could not.
// Containers of other fleets, and any that this package did not make, are
// never touched. Call it at the worker's start and then now and again.
func (e *Engine) Reap(ctx context.Context) (n int, err error) {
	var errs []error
	reap := func(name, why string) {
		if err := e.remove(ctx, name, true); err != nil {
			errs = append(errs, err)
			return
		}
		n++
		e.metrics.reaped.Inc()
		e.log.Info("sandbox reaped", zap.String("container", name), zap.String("reason", why))
	}
	e.mu.Lock()
	quarantine := maps.Clone(e.quarantine)
	e.mu.Unlock()
	for name := range quarantine {
		if ctx.Err() != nil {
			break
		}
		reap(name, "quarantine")
	}
	found, err := e.list(ctx)
	if err != nil {
		return n, errors.Join(append(errs, err)...)
	}
	now := time.Now()
	e.watchIdle(found, now)
	for _, c := range found {
		if ctx.Err() != nil {
			errs = append(errs, abandoned(ctx))
			break
		}
		if why := e.ownerless(c, now); why != "" {
			reap(name(c), why)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return n, fmt.Errorf("reap: %w", err)
	}
	return n, nil
}

// Remaining counts the containers that this engine has launched and that still exist.
func (e *Engine) Remaining(ctx context.Context) (int, error) {
	found, err := e.list(ctx)
	if err != nil {
		return 0, err
	}
	var n int
	for _, c := range found {
		if t, ok := parseTag(c.Labels, e.cfg.Fleet); ok && t.Instance == e.instance {
			n++
		}
	}
	return n, nil
}

// ownerless says why a container should be removed, or "" when it should not.
func (e *Engine) ownerless(c container.Summary, now time.Time) string {
	t, ours := parseTag(c.Labels, e.cfg.Fleet)
	if !ours || name(c) == "" || e.isLive(name(c)) {
		return ""
	}
	switch {
	case now.After(t.Deadline):
		return "deadline passed"
	case t.Instance != e.instance && e.stoodStill(c, now):
		return "left by a worker that is gone"
	case t.Worker != e.cfg.Worker:
		return ""
	case t.Instance != e.instance:
		if t.Launched.Before(e.opened) {
			return "left by an earlier worker of this name"
		}
		return ""
	default:
		// Launched by us, and no sandbox of ours.
		return "lost"
	}
}

// How long a container of another worker may stand still before it counts as left behind. A living worker starts what it
// created within a deadline, which is shorter, and removes what has ended at once; the job of a worker that stands
// still itself is long somebody else's by then.
const (
	createdGrace = 2 * time.Minute
	endedGrace   = 45 * time.Second
)

// watchIdle notes which containers stand still.
func (e *Engine) watchIdle(found []container.Summary, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	idle := make(map[string]time.Time)
	for _, c := range found {
		switch c.State {
		case container.StateCreated, container.StateExited, container.StateDead:
			idle[name(c)] = now
			if since, seen := e.idle[name(c)]; seen {
				idle[name(c)] = since
			}
		}
	}
	e.idle = idle
}

// stoodStill tells whether a container has stood still for too long.
func (e *Engine) stoodStill(c container.Summary, now time.Time) bool {
	grace := endedGrace
	if c.State == container.StateCreated {
		grace = createdGrace
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	since, idle := e.idle[name(c)]
	return idle && now.Sub(since) >= grace
}

func (e *Engine) isLive(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.live[name]
}

// list returns every container of this fleet, running or not.
func (e *Engine) list(ctx context.Context) (found []container.Summary, err error) {
	err = e.call(ctx, opList, e.cfg.CallTimeout, func(ctx context.Context) (err error) {
		found, err = e.cli.ContainerList(ctx, container.ListOptions{
			All: true, Filters: filters.NewArgs(filters.Arg("label", LabelFleet+"="+e.cfg.Fleet)),
		})
		return err
	})
	return found, err
}

// name returns a container's name as it was given, or "".
func name(c container.Summary) string {
	if len(c.Names) == 0 {
		return ""
	}
	return strings.TrimPrefix(c.Names[0], "/")
}
