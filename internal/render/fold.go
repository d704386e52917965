package render

import (
	"fmt"
	"slices"

	"github.com/execra/tracefleet/internal/trace"
)

// A loop keeps its first and last passes, and a line that calls one function
// again and again its first and last calls; fewer than minFolded between them
// are not worth folding.
const (
	headKept  = 3
	tailKept  = 1
	minFolded = 3
)

// fold is a stretch of events, from (inclusive) to to (exclusive), that is
// shown as one row. It starts and ends at events of the same kind: a loop's
// line in one frame, or the call of one function by the same line.
type fold struct {
	from, to int
	// frame is the loop's frame, -1 when the fold holds calls.
	frame int
	words string
}

// folds finds what is too long to be read step by step, in the order of the
// events. No fold reaches over a gap, where other things may have happened.
func folds(t *trace.Trace) []fold {
	var all []fold
	for from := 0; from < len(t.Events); {
		to := stretchEnd(t, from)
		part := *t
		part.Events = t.Events[from:to]
		for _, f := range outermost(slices.Concat(loopFolds(part.Events), callFolds(&part), recursionFolds(&part))) {
			f.from, f.to = f.from+from, f.to+from
			all = append(all, f)
		}
		from = to
	}
	return all
}

// stretchEnd is where the events from index from on stop to follow one another.
func stretchEnd(t *trace.Trace, from int) int {
	for _, g := range t.Gaps {
		if g.Skipped == 0 || g.AfterSeq < t.Events[from].Seq {
			continue
		}
		after := func(e trace.Event) bool { return e.Seq > g.AfterSeq }
		if n := slices.IndexFunc(t.Events[from:], after); n > 0 {
			return from + n
		}
	}
	return len(t.Events)
}

// visit is one line event of a frame.
type visit struct{ index, line int }

// visits is a line and the times a frame came to it, as positions in the frame's visits.
type visits struct {
	line int
	at   []int
}

// loopFolds finds long loops. There is no syntax tree here: a loop is a line
// that one frame comes back to with no line above it in between.
func loopFolds(events []trace.Event) []fold {
	frames := map[int][]visit{}
	for i, e := range events {
		if e.Kind == trace.KindLine {
			frames[e.Frame] = append(frames[e.Frame], visit{index: i, line: e.Line})
		}
	}
	var found []fold
	for frame, all := range frames {
		found = append(found, frameFolds(frame, all)...)
	}
	return found
}

// frameFolds keeps the lines that ran on a stack, lower lines of the file
// nearer its top; going up in the file drops what lies below.
func frameFolds(frame int, all []visit) []fold {
	var stack []visits
	var found []fold
	dropBelow := func(line int) {
		for len(stack) > 0 && stack[len(stack)-1].line > line {
			found = appendLoop(found, frame, all, stack[len(stack)-1])
			stack = stack[:len(stack)-1]
		}
	}
	for i, v := range all {
		dropBelow(v.line)
		if n := len(stack); n > 0 && stack[n-1].line == v.line {
			stack[n-1].at = append(stack[n-1].at, i)
			continue
		}
		stack = append(stack, visits{line: v.line, at: []int{i}})
	}
	dropBelow(0)
	return found
}

// appendLoop adds the middle passes of a loop. The last visit to its line may be
// only the check that ends it, so the visit before starts the last pass shown.
func appendLoop(found []fold, frame int, all []visit, loop visits) []fold {
	end := len(loop.at) - 1 - tailKept
	if end-headKept < minFolded {
		return found
	}
	from, to := loop.at[headKept], loop.at[end]
	last := loop.line
	for _, v := range all[from:to] {
		last = max(last, v.line)
	}
	where := fmt.Sprintf("line %d", loop.line)
	if last > loop.line {
		where = fmt.Sprintf("lines %d-%d", loop.line, last)
	}
	return append(found, fold{
		from: all[from].index, to: all[to].index, frame: frame,
		words: fmt.Sprintf("%s more passes of %s", number(int64(end-headKept)), where),
	})
}

// rounds are the calls of one function, or the times a generator went on, that
// one line made, by event index.
type rounds struct {
	function int
	at       []int
	resumed  bool
}

// callFolds finds lines that call the same function many times or use up a
// generator, as map, sorted and sum do. Within a thread, calls one level below
// a frame belong together until that frame, or one above it, has another event.
func callFolds(t *trace.Trace) []fold {
	names := t.Names()
	var found []fold
	threads := map[int]map[int]*rounds{}
	for i, e := range t.Events {
		levels := threads[e.Thread]
		if levels == nil {
			levels = map[int]*rounds{}
			threads[e.Thread] = levels
		}
		for depth, r := range levels {
			if depth > e.Depth {
				found = r.fold(found, names)
				delete(levels, depth)
			}
		}
		if e.Kind != trace.KindCall && e.Kind != trace.KindResume {
			continue
		}
		r := levels[e.Depth]
		if r == nil || r.function != e.Func {
			if r != nil {
				found = r.fold(found, names)
			}
			r = &rounds{function: e.Func}
			levels[e.Depth] = r
		}
		r.at = append(r.at, i)
		r.resumed = r.resumed || e.Kind == trace.KindResume
	}
	for _, levels := range threads {
		for _, r := range levels {
			found = r.fold(found, names)
		}
	}
	return found
}

// fold adds the middle rounds to found, if they are many.
func (r *rounds) fold(found []fold, names trace.Names) []fold {
	end := len(r.at) - tailKept
	if end-headKept < minFolded {
		return found
	}
	what := "calls"
	if r.resumed {
		what = "rounds"
	}
	return append(found, fold{
		from: r.at[headKept], to: r.at[end], frame: -1,
		words: fmt.Sprintf("%s more %s of %s", number(int64(end-headKept)), what, functionName(names.Function(r.function))),
	})
}

// outermost sorts folds and drops those inside others. Of two that overlap,
// as those of a generator and its consumer do, the first is drawn out over both.
func outermost(all []fold) []fold {
	slices.SortFunc(all, func(a, b fold) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	var kept []fold
	for _, f := range all {
		if n := len(kept); n > 0 && f.from < kept[n-1].to {
			kept[n-1].to = max(kept[n-1].to, f.to)
			continue
		}
		kept = append(kept, f)
	}
	return kept
}
