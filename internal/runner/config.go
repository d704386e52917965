package runner

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
)

// The defaults of Config.
const (
	// DefaultLaunchTimeout is longer than the bounds that launchers have themselves: their
	// errors say what was waited for, the end of this one does not.
	DefaultLaunchTimeout = 2 * time.Minute
	DefaultRunGrace      = 30 * time.Second
	DefaultStoreTimeout  = time.Minute
)

// Config is what a Runner needs to know.
type Config struct {
	// Worker names this worker in results and claims. Required.
	Worker string
	// Maxima are the largest limits that this worker runs. Default job.MaxLimits.
	Maxima job.Limits
	// LaunchTimeout bounds the launch of a sandbox, with the wait for room for it. It is a
	// backstop, and longer than the launcher's own bounds.
	LaunchTimeout time.Duration
	// RunGrace is how much longer than the job's wall limit a run may take before it is
	// taken for a fault of the engine. Sandboxes enforce the limit themselves; this is the backstop.
	RunGrace time.Duration
	// StoreTimeout is how long storing is tried while Redis is away.
	StoreTimeout time.Duration
	// Metrics may be nil.
	Metrics *Metrics
	// Log may be nil.
	Log *zap.Logger
}

// WithDefaults returns c with every field filled in but Worker.
func (c Config) WithDefaults() Config {
	c.Maxima = cmp.Or(c.Maxima, job.MaxLimits())
	c.LaunchTimeout = cmp.Or(c.LaunchTimeout, DefaultLaunchTimeout)
	c.RunGrace = cmp.Or(c.RunGrace, DefaultRunGrace)
	c.StoreTimeout = cmp.Or(c.StoreTimeout, DefaultStoreTimeout)
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// Validate reports every fault of c, which must have its defaults filled in.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, fault string) {
		if !ok {
			errs = append(errs, errors.New(fault))
		}
	}
	check(c.Worker != "", "Worker: must not be empty")
	check(c.LaunchTimeout > 0, "LaunchTimeout: must be more than 0")
	check(c.RunGrace > 0, "RunGrace: must be more than 0")
	check(c.StoreTimeout > 0, "StoreTimeout: must be more than 0")
	if err := c.Maxima.Validate(job.MaxLimits()); err != nil {
		errs = append(errs, fmt.Errorf("the field Maxima: %w", err))
	}
	return errors.Join(errs...)
}
