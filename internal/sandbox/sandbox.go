package sandbox

import (
	"context"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/wire"
)

// A Launcher starts sandboxes that wait for exactly one job.
type Launcher interface {
	// Launch starts a sandbox with the limits of l in force and returns when
	// its interpreter is up and waiting. An error means that the platform
	// failed, and that nothing of the sandbox remains or that it is in quarantine.
	Launch(ctx context.Context, l job.Limits) (Sandbox, error)
}

// A Sandbox runs one job and is then gone.
type Sandbox interface {
	// Run hands the job over and returns when the program has ended or was
	// killed. A failing program is an Outcome, not an error. When ctx is
	// cancelled the program is killed at once and the Outcome holds what
	// happened before, with Interrupted set.
	Run(ctx context.Context, j job.Job) (Outcome, error)
	// Close kills whatever still runs and removes it. It is idempotent and
	// safe after a failed or a concurrent Run; afterwards nothing of the sandbox remains.
	// An error means that its death could not be proven: it is in quarantine.
	Close() error
}

// Outcome is what was observed of one run from outside the program.
type Outcome struct {
	// End is the supervisor's report; nil when none came.
	End *wire.EndInfo
	// Invalid says why the sandbox's words could not be used: a malformed
	// frame, or an end without END. Empty when all was well.
	Invalid string
	// DeadlineHit is true when the worker's own deadline killed the sandbox.
	DeadlineHit bool
	// Interrupted is true when the caller's ctx ended the run.
	Interrupted bool
	// EngineOOM is true when the engine says the sandbox was killed for memory.
	EngineOOM bool
	Stdout    Stream
	Stderr    Stream
	// Memory holds the committed bytes of each area of the trace memory.
	// Hostile input.
	Memory [wire.AreaCount][]byte
	// Wall is the time from handing over the job to the end, on the worker's clock.
	Wall time.Duration
	// StartedAt is when the job was handed over.
	StartedAt time.Time
	Runtime   job.Runtime
}

// Stream is what a program wrote to stdout or stderr.
type Stream struct {
	// Data is the prefix that was kept, at most the job's output_bytes.
	Data []byte
	// Total counts every byte seen, also past the cap.
	Total int64
}

// Truncated tells whether bytes past the cap were dropped.
func (s Stream) Truncated() bool { return s.Total > int64(len(s.Data)) }
