package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/sandbox"
)

// attempt is one attempt at a job under one claim.
type attempt struct {
	*Runner
	delivery queue.Delivery
	claim    ledger.Claim
	// damage is set when the job's entry could not be understood.
	damage error
	log    *zap.Logger

	// job is what was submitted; only id and limits, the default ones, until it was read.
	job job.Job
	// closed is told the end of the Close of the attempt's sandbox; nil while there is none.
	closed chan error
	// wall is how long the program ran, on this worker's clock.
	wall time.Duration
}

// errOverdue is the cause of a run that the sandbox did not end in time.
var errOverdue = errors.New("the sandbox did not end its run in time")

// rejection is why an input will never run. Its text is for the submitter.
type rejection struct{ reason string }

// Error is the reason.
func (e *rejection) Error() string { return e.reason }

func (a *attempt) handle(ctx context.Context) (queue.Report, error) {
	defer a.awaitClose()
	held, stop := a.ledger.Hold(ctx, a.claim)
	defer stop()
	result, err := a.result(held)
	if err != nil {
		return queue.Report{}, a.giveBack(ctx, err)
	}
	return a.finish(ctx, result)
}

// close closes the sandbox beside what follows.
func (a *attempt) close(box sandbox.Sandbox) {
	a.closed = make(chan error, 1)
	go func() { a.closed <- box.Close() }()
}

// awaitClose waits until the sandbox is gone, or as good as gone: Close is bounded.
func (a *attempt) awaitClose() {
	if a.closed == nil {
		return
	}
	if err := <-a.closed; err != nil {
		a.log.Error("close the sandbox", zap.Error(err))
	}
}

// result runs the job and returns what became of it. An error has a class.
func (a *attempt) result(ctx context.Context) (job.Result, error) {
	err := a.input(ctx)
	var refused *rejection
	switch {
	case errors.As(err, &refused):
		return a.unrun(job.StatusRejected, "The job was refused: "+refused.reason), nil
	case err != nil:
		return a.interrupted(ctx, err, queue.ClassStore)
	}
	start := time.Now()
	box, err := a.launch(ctx)
	startup := time.Since(start)
	if err != nil {
		return a.interrupted(ctx, fmt.Errorf("launch a sandbox: %w", err), launchClass(err))
	}
	a.cfg.Metrics.phase(phaseLaunch, startup)
	outcome, cause, err := a.run(ctx, box)
	if err != nil {
		return a.interrupted(ctx, fmt.Errorf("run in the sandbox: %w", err), runClass(err))
	}
	a.wall = outcome.Wall
	a.cfg.Metrics.phase(phaseRun, outcome.Wall)
	if cause != nil && !errors.Is(cause, ledger.ErrCanceled) {
		return job.Result{}, a.stopped(cause)
	}
	result := a.assemble(outcome, a.decode(outcome), cause != nil)
	result.Usage.StartupMS = startup.Milliseconds()
	return result, nil
}

// input reads the job. The error is a rejection when it must not run here.
func (a *attempt) input(ctx context.Context) error {
	if a.damage != nil {
		return &rejection{"what the fleet had stored of it is damaged: " + a.damage.Error()}
	}
	if err := a.delivery.Corrupt; err != nil {
		return &rejection{"its message in the queue is damaged: " + err.Error()}
	}
	j, err := a.ledger.ClaimedInput(ctx, a.claim)
	switch {
	case errors.Is(err, ledger.ErrCorrupt):
		return &rejection{"its stored input is damaged: " + err.Error()}
	case errors.Is(err, ledger.ErrNotFound):
		return &rejection{"its stored input is missing"}
	case err != nil:
		return err
	case j.Digest() != a.claim.Entry.Digest:
		return &rejection{"its stored input is not what was submitted"}
	}
	a.job = j
	if err := j.Limits.Validate(a.cfg.Maxima); err != nil {
		// The maxima of a worker may be lower than those the submitter knew of.
		return &rejection{"it asks for more than this worker allows: " + strings.TrimPrefix(err.Error(), "invalid job: ")}
	}
	return nil
}

func (a *attempt) launch(ctx context.Context) (sandbox.Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.LaunchTimeout)
	defer cancel()
	return a.launcher.Launch(ctx, a.job.Limits)
}

// run gives the job to the sandbox, which from the end of the run on closes itself, beside what
// follows. cause says why the run was interrupted; it is nil when it ended by itself.
func (a *attempt) run(ctx context.Context, box sandbox.Sandbox) (o sandbox.Outcome, cause, err error) {
	defer a.close(box)
	ctx, cancel := context.WithTimeoutCause(ctx, a.job.Limits.Wall()+a.cfg.RunGrace, errOverdue)
	defer cancel()
	o, err = box.Run(ctx, a.job)
	if err == nil && o.Interrupted {
		cause = context.Cause(ctx)
	}
	return o, cause, err
}

// interrupted tells whether an error is only the consequence of an interruption.
func (a *attempt) interrupted(ctx context.Context, err error, class queue.Class) (job.Result, error) {
	if ctx.Err() == nil {
		return job.Result{}, queue.Transient(err, class)
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, ledger.ErrCanceled) {
		return a.unrun(job.StatusCanceled, canceledText), nil
	}
	return job.Result{}, a.stopped(cause)
}

// stopped gives the cause of an interruption its class.
func (a *attempt) stopped(cause error) error {
	switch {
	case errors.Is(cause, ledger.ErrFenced):
		return queue.Transient(cause, queue.ClassBusy)
	case errors.Is(cause, errOverdue):
		return queue.Transient(cause, queue.ClassEngine)
	default:
		return queue.Draining(cause)
	}
}

func launchClass(err error) queue.Class {
	if errors.Is(err, sandbox.ErrNoRoom) {
		return queue.ClassNoRoom
	}
	if errors.Is(err, sandbox.ErrRefused) {
		return queue.ClassSandbox
	}
	return queue.ClassEngine
}

func runClass(err error) queue.Class {
	switch {
	case errors.Is(err, sandbox.ErrUsed), errors.Is(err, sandbox.ErrMismatch):
		return queue.ClassInternal
	case errors.Is(err, sandbox.ErrKilled):
		return queue.ClassKilled
	case errors.Is(err, sandbox.ErrExpired), errors.Is(err, sandbox.ErrClosed):
		return queue.ClassSandbox
	default:
		return queue.ClassEngine
	}
}
