package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/execra/tracefleet/internal/detach"
)

const (
	// exitTime is how long the engine may take to report an end that the
	// stream has shown already.
	exitTime = 5 * time.Second
	// blindTime is how long an answer waits for the engine's word on memory when a program was killed, deadTime when
	// the whole sandbox was: then the answer would put the blame on somebody outside.
	blindTime = 300 * time.Millisecond
	deadTime  = 3 * time.Second
	// toldTime is how long the engine may take to say what it knows, where it is not needed.
	toldTime = time.Second
	// killedExit is the exit code of a container whose PID 1 died by SIGKILL.
	killedExit = 137
)

// inspect asks the engine about the container.
func (b *box) inspect(ctx context.Context) (container.InspectResponse, error) {
	return b.inspectWithin(ctx, b.e.cfg.CallTimeout)
}

func (b *box) inspectWithin(ctx context.Context, bound time.Duration) (got container.InspectResponse, err error) {
	err = b.e.call(ctx, opInspect, bound, func(ctx context.Context) (err error) {
		got, err = b.e.cli.ContainerInspect(ctx, b.name)
		return err
	})
	if err == nil && (got.ContainerJSONBase == nil || got.State == nil) {
		err = b.e.failed(opInspect, errors.New("the answer has no state"))
	}
	return got, err
}

// errPaused means that somebody has kept a sandbox from running.
var errPaused = errors.New("the sandbox is paused")

// paused tells whether somebody has paused the container, as far as the engine says so soon.
func (b *box) paused(ctx context.Context) bool {
	got, err := b.inspectWithin(ctx, toldTime)
	return err == nil && got.State.Paused
}

// kill sends SIGKILL to the container and returns when the engine has
// answered or the bound for it has passed.
func (b *box) kill(ctx context.Context) error {
	ctx, cancel := detach.Context(ctx, b.e.cfg.KillTimeout)
	defer cancel()
	err := b.e.cli.ContainerKill(ctx, b.name, "KILL")
	if err == nil || cerrdefs.IsNotFound(err) || cerrdefs.IsConflict(err) {
		return nil // a conflict means that it does not run
	}
	return b.e.failed(opKill, err)
}

// hangUp closes the sandbox's input, which its supervisor takes as the order to
// end the program. It tells whether that could be done.
func (b *box) hangUp() bool {
	half, ok := b.conn.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

// exited returns how the container ended, nil when it has not, or when that
// could not be found out.
func (b *box) exited() *container.WaitResponse {
	select {
	case <-b.waited:
		return b.exit
	default:
		return nil
	}
}

// waitFailed returns why the engine will not tell of the container's end, nil
// when it has told or still may.
func (b *box) waitFailed() error {
	select {
	case <-b.waited:
		return b.waitErr
	default:
		return nil
	}
}

// proveExit returns the exit code of the container, once the engine confirms that
// it ended, else an error: the engine lost the stream, or is lost itself. cause is
// why the stream ended.
func (b *box) proveExit(ctx context.Context, cause error) (code int64, err error) {
	if errors.Is(cause, errEngineStream) || errors.Is(cause, errBadStream) {
		return 0, cause
	}
	bound := time.NewTimer(exitTime)
	defer bound.Stop()
	select {
	case <-b.waited:
	case <-bound.C:
	}
	if exit := b.exited(); exit != nil && exit.Error == nil {
		return exit.StatusCode, nil
	}
	if err := b.waitFailed(); err != nil {
		// An engine that died took the container with it, and says of it afterwards that it has ended.
		return 0, fmt.Errorf("lost the engine: %w", errors.Join(cause, err))
	}
	got, err := b.inspect(ctx)
	if err != nil {
		return 0, fmt.Errorf("lost the engine: %w", errors.Join(cause, err))
	}
	if got.State.Running {
		return 0, fmt.Errorf("lost the output of a sandbox that runs: %w", cause)
	}
	return int64(got.State.ExitCode), nil
}

// killedForMemory asks the engine whether the kernel killed something in the
// container for memory. The engine may note that later than the exit, so while
// nothing else explains the state that it answers, it is asked again for as long as patience.
func (b *box) killedForMemory(ctx context.Context, patience time.Duration, unexplained func(*container.State) bool) (bool, error) {
	const first = 50 * time.Millisecond
	wait := time.NewTimer(first)
	defer wait.Stop()
	for pause, end := first, time.Now().Add(patience); ; pause *= 2 {
		got, err := b.inspect(ctx)
		if err != nil {
			return false, fmt.Errorf("lost the engine: %w", err)
		}
		if got.State.OOMKilled || !unexplained(got.State) {
			return got.State.OOMKilled, nil
		}
		if told := b.toldOfMemory(ctx); told || time.Now().After(end) {
			return told, nil
		}
		wait.Reset(pause)
		<-wait.C
	}
}

// toldOfMemory tells whether the engine has told of a kill for memory in the container. Engines before 23.0 tell of
// one that they hear of after the container's end, and do not note it.
func (b *box) toldOfMemory(ctx context.Context) bool {
	ctx, cancel := detach.Context(ctx, toldTime)
	defer cancel()
	said, failed := b.e.cli.Events(ctx, events.ListOptions{
		Since: "0", Until: time.Now().UTC().Format(time.RFC3339Nano),
		Filters: filters.NewArgs(filters.Arg("container", b.id), filters.Arg("event", string(events.ActionOOM))),
	})
	select {
	case <-said:
		return true
	case <-failed:
		return false // that was all, or there is nothing to be had
	}
}
