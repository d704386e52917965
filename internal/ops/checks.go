package ops

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Check tells whether something that the command needs works. It returns soon
// after ctx is done.
type Check func(ctx context.Context) error

// errDraining is what the readiness of a command that shuts down says.
var errDraining = errors.New("draining: no new work is taken")

// Checks are the conditions under which a command is ready for work. The zero
// value has none and is ready. It may be used by several goroutines at once.
type Checks struct {
	mu       sync.Mutex
	checks   map[string]*namedCheck
	draining bool
}

type namedCheck struct {
	run     Check
	timeout time.Duration
	// slot holds one token, taken while the check runs: a check that hangs is
	// started once, not once a request.
	slot chan struct{}
}

// Add registers a check that fails when it has not answered within timeout. Names are unique.
func (c *Checks) Add(name string, timeout time.Duration, check Check) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.checks[name]; taken {
		return fmt.Errorf("readiness check %q is there already", name)
	}
	if c.checks == nil {
		c.checks = make(map[string]*namedCheck)
	}
	c.checks[name] = &namedCheck{run: check, timeout: timeout, slot: make(chan struct{}, 1)}
	return nil
}

// Drain makes the command not ready from now on, whatever the checks say.
func (c *Checks) Drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
}

// CheckReport is the answer of one check.
type CheckReport struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Error says what is wrong; empty when OK.
	Error string `json:"error,omitempty"`
	MS    int64  `json:"ms"`
}

// Run runs all checks side by side and returns their reports, sorted by name, and whether all
// passed. It returns at the latest when the longest timeout is over.
func (c *Checks) Run(ctx context.Context) ([]CheckReport, bool) {
	c.mu.Lock()
	checks, draining := maps.Clone(c.checks), c.draining
	c.mu.Unlock()

	names := slices.Sorted(maps.Keys(checks))
	reports := make([]CheckReport, len(names), len(names)+1)
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { reports[i] = checks[name].report(ctx, name) })
	}
	wg.Wait()
	if draining {
		reports = append(reports, CheckReport{Name: "draining", Error: errDraining.Error()})
	}
	ready := !slices.ContainsFunc(reports, func(r CheckReport) bool { return !r.OK })
	return reports, ready
}

func (c *namedCheck) report(ctx context.Context, name string) CheckReport {
	start := time.Now()
	err := c.do(ctx)
	r := CheckReport{Name: name, OK: err == nil, MS: time.Since(start).Milliseconds()}
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

// do waits for the check at most its timeout. A check that does not heed its context
// is left behind, holding the slot until it returns.
func (c *namedCheck) do(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %s", c.timeout))
	select {
	case c.slot <- struct{}{}:
	case <-ctx.Done():
		defer cancel()
		return context.Cause(ctx)
	}
	answer := make(chan error, 1)
	go func() {
		defer cancel()
		err := c.run(ctx)
		<-c.slot
		answer <- err
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
	}
	// The goroutine ends ctx as well, once it has answered.
	select {
	case err := <-answer:
		return err
	default:
		return context.Cause(ctx)
	}
}
