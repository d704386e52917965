// Package fake provides a sandbox.Launcher that runs no program at all, for
// tests of everything above the seam. What a run yields is scripted, or read
// from directives in the program's comments, so that the same conformance suite
// can run over it as over a real one:
//
//	#: stdout "text"        write text, a Go string
//	#: stderr "text"
//	#: stdin                copy stdin to stdout
//	#: args                 write the arguments, one a line
//	#: file "name"          write a file of the job
//	#: flood stdout 1000    write that many bytes; also stderr
//	#: touch "/tmp/a"       leave a file behind
//	#: ls "/tmp/a"          write "there" or "not there", one a line
//	#: hang                 do nothing until killed
//	#: spin                 use processor time until killed
//	#: grow                 use memory until killed
//	#: raise 11             die by a signal
//	#: exit 3               leave
//
// Directives are followed in order. A program without any does nothing and
// exits with 0.
package fake

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
)

var (
	_ sandbox.Launcher = (*Launcher)(nil)
	_ sandbox.Sandbox  = (*box)(nil)
)

// Step scripts one Run.
type Step struct {
	// Outcome and Err are what Run returns. StartedAt, Wall and Runtime are
	// filled in where they are zero.
	Outcome sandbox.Outcome
	Err     error
	// Started, when set, receives a value once Run has the job.
	Started chan<- struct{}
	// Release, when set, is waited for: Run returns when it is closed or
	// yields a value. Meanwhile a cancelled ctx interrupts the run, and Close
	// ends it, as with a real sandbox.
	Release <-chan struct{}
	// CloseErr is what Close of this sandbox returns; wrap
	// sandbox.ErrQuarantined for a sandbox that cannot be proven gone.
	CloseErr error
}

// Launcher is a scripted sandbox.Launcher. The zero value is ready: it
// launches at once and interprets the programs it is given. It may be used by
// several goroutines at once.
type Launcher struct {
	mu       sync.Mutex
	launches []job.Limits
	jobs     []job.Job
	closes   int
	alive    int
	failures []error
	steps    []Step
	gate     <-chan struct{}
}

// New returns a Launcher without a script.
func New() *Launcher { return &Launcher{} }

// Script appends steps. Each Run takes the next; when there is none left, Run
// interprets its program.
func (l *Launcher) Script(steps ...Step) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps = append(l.steps, steps...)
}

// FailLaunches makes the next launches fail, one with each of errs; a nil
// among them lets one through.
func (l *Launcher) FailLaunches(errs ...error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, errs...)
}

// HoldLaunches makes every later Launch wait until gate is closed or yields a
// value, or its ctx is done.
func (l *Launcher) HoldLaunches(gate <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gate = gate
}

// Launches returns the limits of every launch that was asked for, in order,
// failed ones included.
func (l *Launcher) Launches() []job.Limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.launches)
}

// Jobs returns every job that a Run was given, in order.
func (l *Launcher) Jobs() []job.Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.jobs)
}

// Closes returns how many sandboxes were closed, each counted once.
func (l *Launcher) Closes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closes
}

// Remaining returns how many sandboxes were launched and not closed.
func (l *Launcher) Remaining(context.Context) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.alive, nil
}

// Launch starts a sandbox, as scripted.
func (l *Launcher) Launch(ctx context.Context, limits job.Limits) (sandbox.Sandbox, error) {
	l.mu.Lock()
	l.launches = append(l.launches, limits)
	gate := l.gate
	var failure error
	if len(l.failures) > 0 {
		failure, l.failures = l.failures[0], l.failures[1:]
	}
	l.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if failure != nil {
		return nil, failure
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alive++
	return &box{l: l, limits: limits, closed: make(chan struct{})}, nil
}

// take hands out the script of one Run.
func (l *Launcher) take(j job.Job) (Step, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs = append(l.jobs, j)
	if len(l.steps) == 0 {
		return Step{}, false
	}
	step := l.steps[0]
	l.steps = l.steps[1:]
	return step, true
}

// box is a sandbox.
type box struct {
	l      *Launcher
	limits job.Limits
	// closed is closed by the first Close.
	closed chan struct{}

	mu       sync.Mutex
	used     bool
	isClosed bool
	closeErr error
}

func (b *box) begin(j job.Job) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.isClosed:
		return sandbox.ErrClosed
	case b.used:
		return sandbox.ErrUsed
	}
	if err := sandbox.Fits(b.limits, j.Limits); err != nil {
		return err
	}
	b.used = true
	return nil
}

// Run returns what the script or the program's directives say.
func (b *box) Run(ctx context.Context, j job.Job) (sandbox.Outcome, error) {
	if err := b.begin(j); err != nil {
		return sandbox.Outcome{}, err
	}
	started := time.Now()
	var out sandbox.Outcome
	var err error
	if step, ok := b.l.take(j); ok {
		out, err = b.play(ctx, step)
	} else {
		out, err = interpret(ctx, b.closed, j)
	}
	if err != nil {
		return sandbox.Outcome{}, err
	}
	if out.StartedAt.IsZero() {
		out.StartedAt = started
	}
	if out.Wall == 0 {
		out.Wall = time.Since(started)
	}
	if out.Runtime == (job.Runtime{}) {
		out.Runtime = job.Runtime{
			Language: j.Language, Version: "3.13.0", Image: "sha256:fake", Engine: "fake", OCIRuntime: "fake",
		}
	}
	return out, nil
}

// play follows a script.
func (b *box) play(ctx context.Context, step Step) (sandbox.Outcome, error) {
	b.mu.Lock()
	b.closeErr = step.CloseErr
	b.mu.Unlock()
	if step.Started != nil {
		select {
		case step.Started <- struct{}{}:
		case <-ctx.Done():
		}
	}
	if step.Release != nil {
		select {
		case <-step.Release:
		case <-b.closed:
			return sandbox.Outcome{}, sandbox.ErrClosed
		case <-ctx.Done():
			out := step.Outcome
			out.End, out.Interrupted = nil, true
			return out, nil
		}
	}
	return step.Outcome, step.Err
}

// Close ends the sandbox.
func (b *box) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isClosed {
		return b.closeErr
	}
	b.isClosed = true
	close(b.closed)
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	b.l.closes++
	if b.closeErr == nil {
		b.l.alive--
	}
	return b.closeErr
}
