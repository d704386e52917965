package docker

import (
	"context"
	"fmt"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
)

// AwaitChange blocks until the engine has restarted, has read its
// configuration again, or is lost, and returns nil then. It fails when the
// engine does not let itself be watched, or when ctx ends.
func (e *Engine) AwaitChange(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	said, failed := e.cli.Events(ctx, events.ListOptions{
		Filters: filters.NewArgs(filters.Arg("type", string(events.DaemonEventType))),
	})
	// The client answers before the engine does. One that refuses has done so
	// by the time it has answered another request.
	if err := e.call(ctx, opWatch, e.cfg.CallTimeout, func(ctx context.Context) error {
		_, err := e.cli.Ping(ctx)
		return err
	}); err != nil {
		return fmt.Errorf("watch the engine: %w", err)
	}
	select {
	case err := <-failed:
		return fmt.Errorf("watch the engine: %w", err)
	default:
	}
	select {
	case <-said:
		return nil
	case <-failed:
		if ctx.Err() != nil {
			return fmt.Errorf("watch the engine: %w", context.Cause(ctx))
		}
		return nil // the stream broke: the engine went away
	}
}
