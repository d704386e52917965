package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/trace"
)

// position is the line that a call of a function has come to.
type position struct{ function, line, depth int }

// whereStopped shows where each thread was that had not ended when the program was
// stopped, so that threads that wait for one another stand side by side. Of a
// single thread the end of the steps tells it.
func (v *view) whereStopped() {
	t := v.result.Trace
	if t == nil || !cutOff(v.result.Status) {
		return
	}
	last := positions(t)
	if len(last) < 2 {
		return
	}
	v.heading("Where the threads were")
	names := t.Names()
	for _, thread := range slices.Sorted(maps.Keys(last)) {
		f := names.Function(last[thread].function)
		path, line := names.Path(f.File), last[thread].line
		v.printf("  %s\n", v.fit(fmt.Sprintf("thread %d: %s:%d in %s", thread, plain(path), line, functionName(f)), 2))
		if source, known := v.source(path, line); known {
			v.printf("      %s\n", v.fit(plain(strings.TrimSpace(source)), 6))
		}
	}
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
// Of a thread that only waited since before a gap nothing is known that would still have to hold.
func positions(t *trace.Trace) map[int]position {
	stacks := map[int][]position{}
	gaps := t.Gaps
	for _, e := range t.Events {
		for len(gaps) > 0 && gaps[0].AfterSeq < e.Seq {
			if gaps[0].Skipped != 0 {
				clear(stacks)
			}
			gaps = gaps[1:]
		}
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
	for _, g := range gaps {
		if g.Skipped != 0 {
			clear(stacks)
		}
	}
	last := map[int]position{}
	for thread, stack := range stacks {
		if len(stack) > 0 {
			last[thread] = stack[len(stack)-1]
		}
	}
	return last
}
