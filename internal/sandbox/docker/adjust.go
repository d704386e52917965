package docker

import (
	"context"
	"errors"
	"fmt"

	"github.com/docker/docker/api/types/container"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
)

// Done returns a channel that is closed when the container has ended, or when
// the engine has lost track of it. Either way it can run no job any more.
func (b *box) Done() <-chan struct{} { return b.waited }

// Adjust changes the limits of a sandbox that waits, so that it can run a job
// with the limits of l, and reads them back. It fails with errors.ErrUnsupported,
// and has touched nothing, when that cannot be done exactly: the sizes of files
// and of the trace memory are rlimits of PID 1, which no engine can raise, and
// gVisor does not take a new memory limit into account. After any other error
// the sandbox must be closed. It must not be called at the same time as Run.
func (b *box) Adjust(ctx context.Context, l job.Limits) error {
	if gvisor(b.e.host.Runtime) || l.FileBytes > b.limits.FileBytes || l.TraceBytes > b.limits.TraceBytes {
		return fmt.Errorf("adjust the sandbox's limits: %w", errors.ErrUnsupported)
	}
	if err := b.adjust(ctx, l); err != nil {
		return fmt.Errorf("adjust the sandbox's limits: %w", err)
	}
	return nil
}

func (b *box) adjust(ctx context.Context, l job.Limits) error {
	b.mu.Lock()
	unusable := b.used || b.closing
	b.mu.Unlock()
	if unusable {
		return sandbox.ErrClosed
	}
	asked := b.asked
	host := *asked.HostConfig
	host.Memory, host.MemorySwap = l.MemoryBytes, l.MemoryBytes
	host.PidsLimit = new(pidsLimit(b.e.host.Runtime, l.Processes))
	asked.HostConfig = &host

	var answer container.UpdateResponse
	if err := b.e.call(ctx, opUpdate, b.e.cfg.CallTimeout, func(ctx context.Context) (err error) {
		answer, err = b.e.cli.ContainerUpdate(ctx, b.id, container.UpdateConfig{Resources: container.Resources{
			Memory: host.Memory, MemorySwap: host.MemorySwap, PidsLimit: host.PidsLimit,
		}})
		return err
	}); err != nil {
		return err
	}
	if len(answer.Warnings) > 0 {
		return &RefusedError{Warnings: answer.Warnings}
	}
	if err := b.verify(ctx, asked); err != nil {
		return err
	}
	launched := b.limits
	b.asked, b.limits = asked, l
	// What was not changed stays as it was launched.
	b.limits.FileBytes, b.limits.TraceBytes = launched.FileBytes, launched.TraceBytes
	return nil
}
