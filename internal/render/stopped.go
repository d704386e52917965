package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/trace"
)

// position is the line that a call of a function has come to.
type position struct{ function, line, depth int }

// listedWaits is how many coroutines are shown at most.
const listedWaits = 12

// whereStopped shows where each thread was that had not ended when the program was
// stopped, and each coroutine that waited, so that those that wait for one another stand
// side by side. Of a single thread the end of the steps tells it.
func (v *view) whereStopped() {
	t := v.result.Trace
	if t == nil || !cutOff(v.result.Status) {
		return
	}
	last, waits := positions(t), waiting(t)
	if len(last) < 2 && len(waits) == 0 {
		return
	}
	v.heading("Where it was then")
	for _, thread := range slices.Sorted(maps.Keys(last)) {
		v.position(fmt.Sprintf("thread %d: ", thread), last[thread])
	}
	for i, p := range waits {
		if i == listedWaits {
			v.printf("  %s\n", v.paint.dim(fmt.Sprintf("… %s", count(int64(len(waits)-i), "more coroutine"))))
			break
		}
		v.position("waiting: ", p)
	}
}

func (v *view) position(lead string, p position) {
	names := v.result.Trace.Names()
	f := names.Function(p.function)
	path := names.Path(f.File)
	v.printf("  %s\n", v.fit(fmt.Sprintf("%s%s:%d in %s", lead, plain(path), p.line, functionName(f)), 2))
	if source, known := v.source(path, p.line); known {
		v.printf("      %s\n", v.fit(plain(strings.TrimSpace(source)), 6))
	}
}

// waiting finds the coroutines that waited at the last event, those that have waited longest first.
func waiting(t *trace.Trace) []position {
	names, suspended := t.Names(), map[int]trace.Event{}
	for _, e := range sinceGap(t) {
		if e.Kind == trace.KindYield && names.Function(e.Func).Kind == "coroutine" {
			suspended[e.Frame] = e
		} else {
			delete(suspended, e.Frame)
		}
	}
	var waits []position
	for _, e := range slices.SortedFunc(maps.Values(suspended), func(a, b trace.Event) int { return cmp.Compare(a.Seq, b.Seq) }) {
		waits = append(waits, position{function: e.Func, line: e.Line, depth: e.Depth})
	}
	return waits
}

// sinceGap gives the events after the last gap: of what only waited since before it, nothing is known that would still have to hold.
func sinceGap(t *trace.Trace) []trace.Event {
	events := t.Events
	for _, g := range t.Gaps {
		for g.Skipped != 0 && len(events) > 0 && events[0].Seq <= g.AfterSeq {
			events = events[1:]
		}
	}
	return events
}

// cutOff tells whether a program with this status was in the midst of something when it ended.
func cutOff(s job.Status) bool {
	switch s {
	case job.StatusTimeLimit, job.StatusMemoryLimit, job.StatusOutputLimit, job.StatusSignaled, job.StatusCanceled:
		return true
	}
	return false
}

// positions finds the innermost line of each thread that had not ended at the last event.
func positions(t *trace.Trace) map[int]position {
	stacks := map[int][]position{}
	for _, e := range sinceGap(t) {
		stack := stacks[e.Thread]
		for len(stack) > 0 && stack[len(stack)-1].depth >= e.Depth {
			stack = stack[:len(stack)-1]
		}
		switch e.Kind {
		case trace.KindReturn, trace.KindYield, trace.KindUnwind:
		default:
			stack = append(stack, position{function: e.Func, line: e.Line, depth: e.Depth})
		}
		stacks[e.Thread] = stack
	}
	last := map[int]position{}
	for thread, stack := range stacks {
		if len(stack) > 0 {
			last[thread] = stack[len(stack)-1]
		}
	}
	return last
}
