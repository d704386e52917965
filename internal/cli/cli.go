// Package cli is what the two commands have in common at the command line:
// parsing with settings from the environment, help with examples, units, and how
// a command fails.
package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/execra/tracefleet/internal/oneline"
)

// The exit codes of both commands.
const (
	CodeDone     = 0
	CodeFailed   = 1
	CodeUsage    = 2
	CodeNotFound = 3
	CodeRefused  = 4
)

// Error is a failure with the exit code that it stands for.
type Error struct {
	Code int
	Err  error
}

// Error gives the text of the failure.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the failure without its code.
func (e *Error) Unwrap() error { return e.Err }

// Failf makes an Error. Its text says what failed, why, and what to do, on one line.
func Failf(code int, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// Usagef makes an Error for a wrong use of the command.
func Usagef(format string, args ...any) error { return Failf(CodeUsage, format, args...) }

// Code gives the exit code for what a command returned.
func Code(err error) int {
	var failure *Error
	switch {
	case err == nil:
		return CodeDone
	case errors.As(err, &failure):
		return failure.Code
	}
	return CodeFailed
}

// maxMessage is how many characters of a message are written: it may quote outside text.
const maxMessage = 4000

// Report writes err, if any, as one line to w and returns the exit code.
func Report(w io.Writer, command string, err error) int {
	if err != nil && err.Error() != "" {
		// Nothing can be done when stderr is gone; the exit code says it.
		_, _ = fmt.Fprintf(w, "%s: %s\n", command, oneline.Of(err.Error(), maxMessage))
	}
	return Code(err)
}
