package sandbox

import (
	"errors"
	"fmt"

	"github.com/execra/tracefleet/internal/job"
)

// The errors that callers of a Launcher or a Sandbox tell apart. All of them
// mean that the platform failed, never the program.
var (
	// ErrUsed means that Run was called a second time.
	ErrUsed = errors.New("the sandbox has had its job")
	// ErrClosed means that the sandbox was closed before or while its job ran.
	ErrClosed = errors.New("the sandbox is closed")
	// ErrExpired means that the sandbox had waited too long for a job to be
	// given one.
	ErrExpired = errors.New("the sandbox has waited too long for its job")
	// ErrMismatch means that the sandbox was launched with limits that are not
	// the job's.
	ErrMismatch = errors.New("the sandbox was launched with other limits")
	// ErrRefused means that a sandbox did not have the settings that were
	// asked for, and was not used. Trying again on the same host does not help.
	ErrRefused = errors.New("the sandbox's settings were not applied")
	// ErrKilled means that the sandbox was killed, not by its worker, not by the
	// kernel for memory, and not by its program, which cannot do that under the
	// runtime in use. The job may be tried again.
	ErrKilled = errors.New("the sandbox was killed from outside")
	// ErrNoRoom means that the host had no room for the sandbox for as long as could be waited. The job may be tried again.
	ErrNoRoom = errors.New("there is no room for the sandbox")
	// ErrQuarantined means that a sandbox could not be proven gone. Its slot
	// and memory must be counted as taken until it is.
	ErrQuarantined = errors.New("the sandbox could not be proven gone: it is in quarantine")
)

// Fits returns nil when a sandbox launched with the limits of launched can run
// a job under those of asked, else an error that matches ErrMismatch. What is
// in force from the launch on must be equal: a looser sandbox would not hold
// the job to its limits.
func Fits(launched, asked job.Limits) error {
	switch {
	case launched.MemoryBytes != asked.MemoryBytes:
		return fmt.Errorf("%w: memory_bytes %d, the job has %d", ErrMismatch, launched.MemoryBytes, asked.MemoryBytes)
	case launched.Processes != asked.Processes:
		return fmt.Errorf("%w: processes %d, the job has %d", ErrMismatch, launched.Processes, asked.Processes)
	case launched.FileBytes < asked.FileBytes:
		return fmt.Errorf("%w: file_bytes %d, the job has %d", ErrMismatch, launched.FileBytes, asked.FileBytes)
	case launched.TraceBytes < asked.TraceBytes:
		return fmt.Errorf("%w: trace_bytes %d, the job has %d", ErrMismatch, launched.TraceBytes, asked.TraceBytes)
	}
	return nil
}
