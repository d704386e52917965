package queue

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// The defaults of Config.
const (
	DefaultMaxRetry    = 3
	DefaultTaskTimeout = 15 * time.Minute
	DefaultRetention   = time.Hour
	DefaultConcurrency = 2
	DefaultDrainGrace  = 30 * time.Second
	DefaultKillGrace   = 15 * time.Second
)

// Config is what producers and consumers need to know. The zero value is good for tests; a fleet
// sets Shards, MaxRetry and Retention alike everywhere.
type Config struct {
	Shards Shards
	// MaxRetry is how many counted retries a job gets after its first attempt.
	MaxRetry int
	// TaskTimeout is asynq's own limit on a handler, a backstop only: it
	// must be longer than the longest job with everything around it. Whole seconds.
	TaskTimeout time.Duration
	// Retention is how long asynq shows a finished task. Whole seconds.
	Retention time.Duration

	// Concurrency is how many handlers run at the same time, never more.
	Concurrency int
	// Unavailable, when set, tells how many slots are taken by what earlier handlers left behind and could not be
	// proven gone. While no slot is left nothing is fetched. It is called often and must not block.
	Unavailable func() int
	// DrainGrace is how long handlers may go on when Run shall end; KillGrace is
	// how long they then have to clean up.
	DrainGrace, KillGrace time.Duration

	// Metrics may be nil.
	Metrics *Metrics
}

// WithDefaults returns c with every field filled in.
func (c Config) WithDefaults() Config {
	c.Shards = cmp.Or(c.Shards, DefaultShards)
	c.MaxRetry = cmp.Or(c.MaxRetry, DefaultMaxRetry)
	c.TaskTimeout = cmp.Or(c.TaskTimeout, DefaultTaskTimeout)
	c.Retention = cmp.Or(c.Retention, DefaultRetention)
	c.Concurrency = cmp.Or(c.Concurrency, DefaultConcurrency)
	c.DrainGrace = cmp.Or(c.DrainGrace, DefaultDrainGrace)
	c.KillGrace = cmp.Or(c.KillGrace, DefaultKillGrace)
	if c.Unavailable == nil {
		c.Unavailable = func() int { return 0 }
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	return c
}

// Validate reports every fault of c, which must have its defaults filled in.
func (c Config) Validate() error {
	errs := []error{c.Shards.Validate()}
	check := func(ok bool, text string) {
		if !ok {
			errs = append(errs, errors.New(text))
		}
	}
	check(c.MaxRetry >= 1 && c.MaxRetry <= 100, fmt.Sprintf("MaxRetry: must be 1 to 100, got %d", c.MaxRetry))
	// asynq counts whole seconds, and takes 0 for its own default.
	check(c.TaskTimeout >= time.Second, "TaskTimeout: must be at least 1s")
	check(c.Retention >= time.Second, "Retention: must be at least 1s")
	check(c.Concurrency >= 1, "Concurrency: must be at least 1")
	check(c.DrainGrace > 0, "DrainGrace: must be more than 0")
	check(c.KillGrace > 0, "KillGrace: must be more than 0")
	return errors.Join(errs...)
}
