package pool

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/execra/tracefleet/internal/job"
)

// Config says how many sandboxes to keep and how hard to try. The zero value
// of a field means its default.
type Config struct {
	// Concurrency is how many jobs run at once. Default 1. The pool does not
	// enforce it; the other defaults follow from it.
	Concurrency int
	// Warm is how many sandboxes are kept waiting. Zero means Concurrency, a
	// negative number none: then every job gets its own launch.
	Warm int
	// Slots bounds all sandboxes: being launched, waiting, running, being
	// removed, in quarantine. Default Warm + 2 Concurrency: while one
	// generation of jobs is being removed, the next can run.
	Slots int
	// Class is the limits that the waiting sandboxes have at first. Default job.DefaultLimits.
	Class job.Limits
	// MaxIdle is how long a sandbox may wait; an older one is never handed
	// out. Default 10 minutes. To spread the renewal, each sandbox leaves at a
	// random moment of the last quarter.
	MaxIdle time.Duration
	// MaxLaunching bounds how many launches the pool tries at once while it looks
	// for the best number; it starts with two for each processor. Default twice the
	// processors, at least 8, at most Slots. 1 makes the number fixed.
	MaxLaunching int
	// MaxWait is how long a job waits for a sandbox, then Launch gives
	// ErrNoSandbox. Default 60 seconds.
	MaxWait time.Duration
	// LaunchTimeout bounds one launch, beyond the launcher's own deadlines. Default 2 minutes.
	LaunchTimeout time.Duration
	// Quiet is how long refilling is put off while a job runs and other
	// sandboxes still wait, so that a launch does not take the processor
	// from the job. Default 50 milliseconds; negative means not at all.
	Quiet time.Duration
	// MinBackoff and MaxBackoff bound the pause after a failed launch, which
	// doubles with each further failure. Defaults 250 milliseconds and 5 seconds: an attempt costs little, and jobs wait.
	MinBackoff time.Duration
	MaxBackoff time.Duration
	// MinRetry and MaxRetry bound the pause before Close is tried again on a
	// sandbox in quarantine, or a Warden is asked again. Defaults 5 seconds and 5 minutes.
	MinRetry time.Duration
	MaxRetry time.Duration
	// DrainTimeout is how long jobs that still run when the pool stops may
	// go on; then they are killed. Default 30 seconds.
	DrainTimeout time.Duration
}

// WithDefaults returns a copy of c in which every field left zero has its default.
func (c Config) WithDefaults() Config {
	c.Concurrency = cmp.Or(c.Concurrency, 1)
	c.Warm = cmp.Or(c.Warm, c.Concurrency)
	c.Slots = cmp.Or(c.Slots, c.keep()+2*c.Concurrency)
	c.MaxLaunching = cmp.Or(c.MaxLaunching, min(max(8, 2*runtime.GOMAXPROCS(0)), c.Slots))
	c.Class = cmp.Or(c.Class, job.DefaultLimits())
	c.MaxIdle = cmp.Or(c.MaxIdle, 10*time.Minute)
	c.MaxWait = cmp.Or(c.MaxWait, time.Minute)
	c.LaunchTimeout = cmp.Or(c.LaunchTimeout, 2*time.Minute)
	c.Quiet = cmp.Or(c.Quiet, 50*time.Millisecond)
	c.MinBackoff = cmp.Or(c.MinBackoff, 250*time.Millisecond)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, 5*time.Second)
	c.MinRetry = cmp.Or(c.MinRetry, 5*time.Second)
	c.MaxRetry = cmp.Or(c.MaxRetry, 5*time.Minute)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 30*time.Second)
	return c
}

// keep is how many sandboxes wait when the pool is full.
func (c Config) keep() int { return max(0, c.Warm) }

// Validate reports everything that is wrong with c, by field.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Concurrency < 1 {
		bad("concurrency %d: want at least 1", c.Concurrency)
	}
	if c.Slots < c.Concurrency {
		bad("slots %d: want at least the concurrency, %d", c.Slots, c.Concurrency)
	}
	if c.keep() > c.Slots {
		bad("warm %d: want at most the slots, %d", c.Warm, c.Slots)
	}
	if c.MaxLaunching < 1 || c.MaxLaunching > c.Slots {
		bad("max_launching %d: want 1 to the slots, %d", c.MaxLaunching, c.Slots)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"max_idle", c.MaxIdle}, {"max_wait", c.MaxWait}, {"launch_timeout", c.LaunchTimeout},
		{"min_backoff", c.MinBackoff}, {"min_retry", c.MinRetry}, {"drain_timeout", c.DrainTimeout},
	} {
		if d.value <= 0 {
			bad("%s %v: want more than zero", d.name, d.value)
		}
	}
	if c.MaxBackoff < c.MinBackoff {
		bad("max_backoff %v: want at least min_backoff, %v", c.MaxBackoff, c.MinBackoff)
	}
	if c.MaxRetry < c.MinRetry {
		bad("max_retry %v: want at least min_retry, %v", c.MaxRetry, c.MinRetry)
	}
	return errors.Join(errs...)
}
