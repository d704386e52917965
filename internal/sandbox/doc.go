// Package sandbox is the seam between the fleet and whatever runs a program
// in isolation. Package sandboxtest holds the suite that every implementation
// of the contract below passes.
//
// # Life of a sandbox
//
// Launch makes a sandbox before its job is known: only the limits are. When
// Launch returns, the interpreter is up and waits. Run hands over the one job
// and returns how it ended. Close kills and removes. A sandbox is never given
// a second job; nothing that a job leaves behind can be seen by another.
//
// # Verdicts and errors
//
// A program that fails, floods, hangs, forges or kills is an Outcome with a
// nil error. An error from Run means that the platform failed, and that the
// job may be tried again elsewhere. The Outcome beside a non-nil error means
// nothing. What a hostile program can bring about from inside is never an
// error.
//
// # Limits
//
// Memory and processes are limited from the launch on, the rest travels with
// the job. Run refuses a job that the sandbox was not launched for (see Fits)
// with ErrMismatch, and the sandbox can still be given another.
//
// # Time
//
// The job's wall limit runs from the hand-over, on the worker's clock. The
// sandbox enforces it inside; the implementation kills from outside half a
// second later, whatever the inside does, and sets DeadlineHit. Once the
// program is known to be dead, what it left (output, trace) may take up to
// ten more seconds to arrive.
//
// # Cancellation
//
// Cancelling the ctx of Launch abandons the launch: what was started is
// removed, and the error matches ctx's. Cancelling the ctx of Run kills the
// program at once: the Outcome has Interrupted set and holds the output that
// had arrived. Whether it holds the trace and a report as well depends on the
// inside, which gets a fraction of a second for it before the outside kills
// everything. Clean-up never runs under the caller's ctx.
//
// # Closing
//
// Close is idempotent and may be called at any time: before Run, which then
// fails with ErrClosed; during it, which ends it with ErrClosed; twice, or by
// several goroutines at once, all of which get the same answer. It blocks
// until the sandbox is proven gone or a bound of the implementation has
// passed; then it fails with ErrQuarantined, and the implementation goes on
// trying. Callers that must not wait close in the background, and count the
// sandbox as alive until Close has returned nil. A sandbox must be closed
// after Run, too, however Run ended.
//
// # Concurrency
//
// Launchers may be used by several goroutines at once. Run may be called once;
// a second call fails with ErrUsed, also while the first is under way. Run
// and Close may be concurrent.
//
// # Buffers
//
// The Outcome's bytes belong to the caller; the sandbox keeps no reference. An
// implementation holds no more than the job's output_bytes per stream and the
// fixed capacity of each trace area, however much arrives, and never stops
// reading while the sandbox lives: an engine may block on a reader that does.
// The Job passed to Run is not changed and not kept after Run has returned.
package sandbox
