package render

import (
	"slices"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/trace"
)

// mainThread is the number of the thread that runs the entrypoint.
const mainThread = 1

// fatalEvent finds where the exception that ended the program was raised: the main
// thread's last raise that looks like it. Other threads, what atexit calls and hooks may
// raise, and catch, others after it. With events missing only what follows them counts, for
// the last raise that was recorded need not be the last one there was.
func fatalEvent(r job.Result) int {
	if r.Status != job.StatusException {
		return -1
	}
	events, first := r.Trace.Events, int64(0)
	for _, g := range r.Trace.Gaps {
		if g.Skipped != 0 {
			first = max(first, g.AfterSeq+1)
		}
	}
	last := -1
	for i := len(events) - 1; i >= 0 && events[i].Seq >= first; i-- {
		e := events[i]
		if e.Kind != trace.KindException || e.Thread != mainThread || passedOn(events[:i+1]) {
			continue
		}
		if raisedBy(r.Exception, e) {
			return i
		}
		last = max(last, i)
	}
	if first > 0 {
		return -1
	}
	return last
}

// raisedBy tells whether e looks like the raise of the exception x.
func raisedBy(x *trace.Exception, e trace.Event) bool {
	return x != nil && e.Exception != nil && e.Line == x.Line && lastName(e.Exception.Type) == lastName(x.Type)
}

// passedOn tells whether the last of events is not a raise but the arrival of an
// exception in the caller of the frame that it has just left.
func passedOn(events []trace.Event) bool {
	last := events[len(events)-1]
	for i := len(events) - 2; i >= 0; i-- {
		switch e := events[i]; {
		case e.Thread != last.Thread:
			continue
		case e.Kind == trace.KindUnwind:
			return true
		default:
			return false
		}
	}
	return false
}

// endsIteration tells whether an exception is the interpreter's way to end a
// loop or a coroutine, which nobody would call an exception.
func endsIteration(e trace.Event) bool {
	return e.Exception != nil && slices.Contains([]string{"StopIteration", "StopAsyncIteration", "GeneratorExit"}, e.Exception.Type)
}
