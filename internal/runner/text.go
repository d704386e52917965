package runner

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/oneline"
	"github.com/execra/tracefleet/internal/trace"
)

const (
	// maxHeadline bounds Result.Headline in characters.
	maxHeadline = 200
	// maxErrorDetail bounds what is told of a foreign error in Result.Error, in characters.
	maxErrorDetail = 300
)

// streamText turns what a program wrote into text. When it was truncated, a character that the cap cut in two is
// left out; other bytes that are not UTF-8 become U+FFFD, one for each maximal part of a
// broken character, as Python's errors="replace" does, and lossy is true.
func streamText(data []byte, truncated bool) (text string, lossy bool) {
	if truncated {
		data = trimPartial(data)
	}
	if utf8.Valid(data) {
		return string(data), false
	}
	var b strings.Builder
	b.Grow(len(data) + utf8.UTFMax)
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			size = brokenLen(data)
		}
		b.WriteRune(r)
		data = data[size:]
	}
	return b.String(), true
}

// trimPartial leaves out a character at the end that has begun but not ended.
func trimPartial(data []byte) []byte {
	for i := len(data) - 1; i >= 0 && i >= len(data)-utf8.UTFMax; i-- {
		if utf8.RuneStart(data[i]) {
			if !utf8.FullRune(data[i:]) {
				return data[:i]
			}
			break
		}
	}
	return data
}

// brokenLen is the length of the longest beginning of a character that broken data starts with, at least 1.
func brokenLen(data []byte) int {
	n := 1
	for n < len(data) && n < utf8.UTFMax && !utf8.FullRune(data[:n]) && !utf8.FullRune(data[:n+1]) {
		n++
	}
	return n
}

// headline is one printable line of at most maxHeadline characters that says how the job ended.
func headline(r job.Result) string {
	switch r.Status {
	case job.StatusOK:
		return "Finished normally."
	case job.StatusExitNonzero:
		return fmt.Sprintf("Exited with code %d.", deref(r.Returncode))
	case job.StatusSignaled:
		return fmt.Sprintf("Killed by the signal %s.", deref(r.Signal))
	case job.StatusException, job.StatusSyntaxError:
		return exceptionHeadline(r.Exception)
	default:
		return oneline.Of(deref(r.Error), maxHeadline)
	}
}

// exceptionHeadline is the exception with its place; a long message is cut, not the place.
func exceptionHeadline(e *trace.Exception) string {
	if e == nil {
		return "It does not compile."
	}
	text := e.Type
	if e.Message != "" {
		text += ": " + e.Message
	}
	place := ""
	if e.File != "" && e.Line > 0 {
		place = fmt.Sprintf("%s:%d", e.File, e.Line)
		if e.Function != "" {
			place += " in " + e.Function
		}
		place = " (" + oneline.Of(place, maxHeadline/2) + ")"
	}
	return oneline.Of(text, maxHeadline-utf8.RuneCountInString(place)) + place
}

func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}
