package runner

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/oneline"
	"github.com/execra/tracefleet/internal/trace"
)

const (
	// streamShare is the part of the space that everything but the events may take
	// before the streams are cut, too: what is left keeps the beginning of the trace.
	streamShare = 0.75
	// fixedShare is the part of it that may be taken by what has no end to be cut
	// off: summary, exception, and the trace's tables.
	fixedShare = 0.5
	// fitTries bounds how often each part is measured and cut again.
	fitTries = 6
	// fitSlack cuts a little more than measured, because parts do not compress alike.
	fitSlack = 0.9
)

// A measure tells how much of the space for a result r takes: up to 1 it fits.
type measure func(r job.Result) (float64, error)

// fit cuts r until it fits: events from the end first, then the longer of the streams. When what else the tracer said
// is too much it goes altogether. Everything that is left out is flagged and noted.
// r itself is not changed.
func fit(r job.Result, load measure) (job.Result, error) {
	full, err := load(r)
	if err != nil || full <= 1 {
		return r, err
	}
	r.Tracer.Notes = slices.Clone(r.Tracer.Notes)
	fixed, err := load(capStreams(capEvents(r, 0), 0))
	if err == nil && fixed > fixedShare {
		r = dropTestimony(r, "trace, summary and traceback were left out so that the result fits its size limit")
		fixed, err = load(capStreams(r, 0))
	}
	if err == nil && fixed > streamShare {
		err = errors.New("the result does not fit even without output and trace")
	}
	if err != nil {
		return r, err
	}
	r, bare, err := fitStreams(r, fixed, load)
	if err != nil {
		return r, err
	}
	return fitEvents(r, bare, load)
}

// fitStreams cuts the streams until everything but the events takes at most streamShare. fixed is what is
// taken without streams and events. It returns what is taken without events.
func fitStreams(r job.Result, fixed float64, load measure) (job.Result, float64, error) {
	before := len(r.Stdout) + len(r.Stderr)
	bare, err := load(capEvents(r, 0))
	for try := 0; err == nil && bare > streamShare; try++ {
		n := 0
		if try < fitTries {
			n = int(float64(len(r.Stdout)+len(r.Stderr)) * (streamShare - fixed) / (bare - fixed) * fitSlack)
		}
		r = capStreams(r, n)
		if n == 0 {
			bare = fixed
			break
		}
		bare, err = load(capEvents(r, 0))
	}
	if cut := before - len(r.Stdout) - len(r.Stderr); cut > 0 {
		r.Tracer.Notes = append(r.Tracer.Notes, fmt.Sprintf("%d bytes of output were left out so that the result fits its size limit", cut))
	}
	return r, bare, err
}

// fitEvents cuts events until r, which takes bare without any, fits.
func fitEvents(r job.Result, bare float64, load measure) (job.Result, error) {
	if r.Trace == nil {
		return r, nil
	}
	before := len(r.Trace.Events)
	noted := func(n int) job.Result {
		c := capEvents(r, n)
		if n < before {
			c.Tracer.Notes = append(slices.Clone(c.Tracer.Notes),
				fmt.Sprintf("%d events were left out so that the result fits its size limit", before-n))
		}
		return c
	}
	n := before
	for range fitTries {
		c := noted(n)
		full, err := load(c)
		if err != nil || full <= 1 {
			return c, err
		}
		if full <= bare {
			break
		}
		n = int(float64(n) * (1 - bare) / (full - bare) * fitSlack)
	}
	return noted(0), nil
}

// capEvents keeps the first n events of the trace.
func capEvents(r job.Result, n int) job.Result {
	if r.Trace == nil || len(r.Trace.Events) <= n {
		return r
	}
	t := *r.Trace
	last := int64(0)
	if n > 0 {
		last = t.Events[n-1].Seq
	}
	// Gaps behind the cut are part of the new one.
	t.Gaps = slices.DeleteFunc(slices.Clone(t.Gaps), func(g trace.Gap) bool { return g.AfterSeq >= last })
	skipped := int64(-1)
	if s := r.Summary; s != nil && len(t.Gaps) == 0 {
		skipped = s.EventsTotal - int64(n)
	}
	t.Gaps = append(t.Gaps, trace.Gap{AfterSeq: last, Skipped: skipped, Cause: trace.GapBytes})
	t.Events = t.Events[:n:n]
	t.Truncation.Events, t.Truncation.Bytes = true, true
	r.Trace = &t
	if r.Summary != nil {
		s := *r.Summary
		s.EventsKept = int64(n)
		r.Summary = &s
	}
	return r
}

// capStreams cuts the streams to n bytes in all: the longer one first, so that a short
// stderr, which says what went wrong, survives a flood on stdout.
func capStreams(r job.Result, n int) job.Result {
	short := min(len(r.Stdout), len(r.Stderr))
	each := max(n-short, n/2)
	cut := func(text *string, truncated *bool) {
		if len(*text) <= each {
			return
		}
		at := each
		for at > 0 && !utf8.RuneStart((*text)[at]) {
			at--
		}
		*text, *truncated = (*text)[:at], true
	}
	cut(&r.Stdout, &r.StdoutTruncated)
	cut(&r.Stderr, &r.StderrTruncated)
	return r
}

// dropTestimony leaves out everything of unknown size that the tracer said but the exception's
// place. note says why.
func dropTestimony(r job.Result, note string) job.Result {
	if e := r.Exception; e != nil {
		r.Exception = &trace.Exception{
			Type: oneline.Of(e.Type, maxHeadline), Message: oneline.Of(e.Message, maxHeadline),
			File: oneline.Of(e.File, maxHeadline), Function: oneline.Of(e.Function, maxHeadline), Line: e.Line, Column: e.Column,
		}
	}
	r.Trace, r.Summary, r.Effects = nil, nil, nil
	r.Tracer.Notes = []string{note}
	return r
}
