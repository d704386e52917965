package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"
)

// Class says what kind of fault of the platform kept a job from getting its result. It decides, by the table below, whether and
// when the job is tried again.
type Class string

// The classes.
const (
	// ClassEngine: the sandbox engine failed or did not answer.
	ClassEngine Class = "engine"
	// ClassSandbox: a sandbox could not be started as demanded.
	ClassSandbox Class = "sandbox"
	// ClassKilled: the sandbox was killed by somebody outside. Tried once more; twice in a row is the end, because then it may
	// be the job's doing after all.
	ClassKilled Class = "killed"
	// ClassStore: the ledger could not be read or written.
	ClassStore Class = "store"
	// ClassPanic: the handler panicked.
	ClassPanic Class = "panic"
	// ClassInternal: anything that has no class of its own.
	ClassInternal Class = "internal"
	// ClassPermanent: trying again cannot help.
	ClassPermanent Class = "permanent"
	// ClassDraining: the worker is going away. Not an attempt.
	ClassDraining Class = "draining"
	// ClassBusy: another worker holds the job, or this one has no slot. Not an attempt.
	ClassBusy Class = "busy"
	// ClassNoRoom: this worker's host had no memory for the job for a while. Not an attempt.
	ClassNoRoom Class = "no_room"
	// ClassLost: asynq lost track of the task or of its worker. Not an attempt here: the ledger counts how
	// often a job is lost and buries it.
	ClassLost Class = "lost"
)

// Classes are all classes.
func Classes() []Class {
	return []Class{
		ClassEngine, ClassSandbox, ClassKilled, ClassStore, ClassPanic, ClassInternal, ClassPermanent, ClassDraining, ClassBusy, ClassNoRoom, ClassLost,
	}
}

// Rule is what happens to a job after a fault of some class.
type Rule struct {
	// Retry is false when trying again cannot help.
	Retry bool
	// Counted is true when the attempt counts towards Config.MaxRetry.
	Counted bool
	// Base is the delay before the first retry. It doubles with every counted retry, up to Max, and is spread by
	// up to a quarter in both directions, so that jobs that failed together do not return together.
	Base, Max time.Duration
}

// RuleOf is the table. An unknown class is treated as ClassInternal.
func RuleOf(c Class) Rule {
	const base, ceiling = 2 * time.Second, 2 * time.Minute
	switch c {
	case ClassPermanent:
		return Rule{}
	case ClassDraining:
		return Rule{Retry: true}
	case ClassBusy, ClassNoRoom:
		return Rule{Retry: true, Base: 5 * time.Second, Max: 5 * time.Second}
	case ClassLost:
		return Rule{Retry: true, Base: time.Second, Max: time.Second}
	default: // engine, sandbox, killed, store, panic, internal
		return Rule{Retry: true, Counted: true, Base: base, Max: ceiling}
	}
}

// delay is how long to wait before the retry that follows the given number of counted retries.
func (r Rule) delay(retried int) time.Duration {
	if r.Base <= 0 {
		return 0
	}
	d := r.Base
	for range retried {
		if d *= 2; d >= r.Max {
			d = r.Max
			break
		}
	}
	return d - d/4 + rand.N(d/2+1)
}

// ErrDraining is the cause of the context of a handler that is interrupted because its worker goes away.
var ErrDraining = errors.New("the worker is going away")

// classified is an error with a class.
type classified struct {
	err   error
	class Class
}

// Error is the text of the error itself; the class is not part of it.
func (e *classified) Error() string { return e.err.Error() }

// Unwrap returns the error itself.
func (e *classified) Unwrap() error { return e.err }

// Transient gives err a class that is tried again. It returns nil for a nil err.
func Transient(err error, class Class) error { return classify(err, class) }

// Permanent marks err as one that trying again cannot help. The handler has ended the job in the ledger before
// it returns such an error. It returns nil for a nil err.
func Permanent(err error) error { return classify(err, ClassPermanent) }

// Draining marks err as the consequence of ErrDraining. The handler has released the job in the ledger before
// it returns such an error. It returns nil for a nil err.
func Draining(err error) error { return classify(err, ClassDraining) }

func classify(err error, class Class) error {
	if err == nil {
		return nil
	}
	return &classified{err: err, class: class}
}

// ClassOf returns the class of an error that a handler returns. An error without a class is internal, also when a
// deadline of the handler's own is behind it.
func ClassOf(err error) Class {
	var c *classified
	switch {
	case errors.As(err, &c):
		return c.class
	case errors.Is(err, ErrDraining):
		return ClassDraining
	default:
		return ClassInternal
	}
}

// taskError is what asynq gets to see of a handler's error: a short line, and what to do.
type taskError struct {
	text  string
	class Class
	// final sends the task to the archive at once.
	final bool
}

// Error is what asynqmon shows.
func (e *taskError) Error() string { return e.text }

// Is makes asynq take a final error for its SkipRetry.
func (e *taskError) Is(target error) bool { return e.final && target == asynq.SkipRetry }

func newTaskError(err error, class Class, final bool) *taskError {
	return &taskError{text: oneLine(string(class)+": "+err.Error(), maxErrorBytes), class: class, final: final}
}

// maxErrorBytes bounds the error that asynq keeps with a task.
const maxErrorBytes = 500

// taskRule is the rule for an error that asynq asks about. Errors of asynq's own mean that it
// gave up on the task, whose handler may still be at work.
func taskRule(err error) Rule {
	var t *taskError
	switch {
	case errors.As(err, &t):
		return RuleOf(t.class)
	case errors.Is(err, asynq.ErrLeaseExpired), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return RuleOf(ClassLost)
	default:
		return RuleOf(ClassInternal)
	}
}

// retryDelay is asynq's RetryDelayFunc.
func retryDelay(retried int, err error, _ *asynq.Task) time.Duration {
	return taskRule(err).delay(retried)
}

// isFailure is asynq's IsFailure: what is no failure does not count as an attempt.
func isFailure(err error) bool { return taskRule(err).Counted }
