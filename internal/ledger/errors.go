package ledger

import (
	"errors"
	"fmt"
	"strings"
)

// The errors that callers branch on. They come wrapped; test with errors.Is.
var (
	// ErrNotFound means that there is no such job, or that its retention is over.
	ErrNotFound = errors.New("no such job")
	// ErrConflict means that the id is taken by a job with other input.
	ErrConflict = errors.New("the id belongs to a job with other input")
	// ErrTerminal means that the job is finished, canceled or dead, and stays so.
	ErrTerminal = errors.New("the job is finished")
	// ErrDead means that the job stands in the dead letters. It is an ErrTerminal.
	ErrDead = fmt.Errorf("%w: it is a dead letter", ErrTerminal)
	// ErrNotDead means that the job does not stand in the dead letters.
	ErrNotDead = errors.New("the job is not in the dead letters")
	// ErrBusy means that the job is claimed by a worker.
	ErrBusy = errors.New("the job is claimed by a worker")
	// ErrFenced means that the claim is not the newest one, or was given up or
	// taken away: whatever the holder still does with the job does not count.
	ErrFenced = errors.New("the claim is no longer held")
	// ErrNotFinished means that the job has no result yet.
	ErrNotFinished = errors.New("the job is not finished")
	// ErrCanceled is the cause of the context of Hold when a user canceled the job.
	ErrCanceled = errors.New("the job was canceled by a user")
	// ErrCorrupt means that what is stored cannot be understood. The text says what is wrong.
	ErrCorrupt = errors.New("corrupt")
	// ErrNoKey means that what is stored is encrypted with a key that is not here.
	ErrNoKey = errors.New("no key")
	// ErrClosed means that the Ledger was closed.
	ErrClosed = errors.New("the ledger is closed")
)

// TooLargeError says that a document is larger than the ledger stores.
type TooLargeError struct {
	What string // "input" or "result"
	// Bytes is the size that was met, MaxBytes the largest allowed.
	Bytes, MaxBytes int64
	// Compressed is true when both sizes are of the compressed form.
	Compressed bool
}

// Error names the document, its size and the bound.
func (e *TooLargeError) Error() string {
	form := ""
	if e.Compressed {
		form = " compressed"
	}
	return fmt.Sprintf("%s is %d bytes%s, at most %d", e.What, e.Bytes, form, e.MaxBytes)
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...))
}

// reply translates an error of Redis. A key of the wrong type is damage to the job, not to the connection.
func reply(op, id string, err error) error {
	if strings.Contains(err.Error(), "WRONGTYPE") {
		err = corrupt("a key has the wrong type")
	}
	return fmt.Errorf("%s %s: %w", op, id, err)
}
