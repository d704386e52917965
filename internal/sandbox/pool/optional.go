package pool

import (
	"context"

	"github.com/execra/tracefleet/internal/job"
)

// An Adjuster is a sandbox whose limits can be changed while it waits. A
// sandbox that is none serves the jobs it was launched for only, as sandbox.Fits says.
type Adjuster interface {
	// Adjust brings exactly the container-level limits of l into force, so that
	// Run may be called with a job that has them. It is called before Run, never at the same
	// time. An error that is errors.ErrUnsupported means that the sandbox cannot do
	// that, was not touched, and can still serve the limits it has; it should be
	// given without asking the engine. Any other error means that its limits are
	// unknown: it is closed.
	Adjust(ctx context.Context, l job.Limits) error
}

// A Watcher is a sandbox that notices its own death. One that is none is
// taken to live until it is used.
type Watcher interface {
	// Done returns a channel that is closed when the sandbox has died, or can
	// for any other reason run no job any more. Until Run or Close is called
	// nothing else closes it.
	Done() <-chan struct{}
}

// A Warden is a launcher that keeps its sandboxes in quarantine itself and goes
// on trying to remove them. One that is none has the Close of such a sandbox
// called again, and keeps no slot for what a failed Launch may have left.
type Warden interface {
	// Quarantined returns how many sandboxes could not be proven gone so far.
	// A sandbox counts before its Close, or the Launch that
	// failed, returns. It is called often and must not block.
	Quarantined() int
}
