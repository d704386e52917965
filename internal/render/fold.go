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

// folds finds what is too long to be read step by step, in the order of the events.
func folds(t *trace.Trace) []fold {
	return outermost(slices.Concat(loopFolds(t.Events), callFolds(t), recursionFolds(t)))
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

// calls are the calls of one function that one line made, by event index.
type calls struct {
	function int
	at       []int
}

// callFolds finds lines that call the same function many times, as map, sorted
// and comprehensions do. Within a thread, calls one level below a frame belong
// together until that frame, or one above it, has another event.
func callFolds(t *trace.Trace) []fold {
	names := t.Names()
	var found []fold
	threads := map[int]map[int]*calls{}
	finish := func(c *calls) {
		if end := len(c.at) - tailKept; end-headKept >= minFolded {
			found = append(found, fold{from: c.at[headKept], to: c.at[end], frame: -1,
				words: fmt.Sprintf("%s more calls of %s", number(int64(end-headKept)), functionName(names.Function(c.function)))})
		}
	}
	for i, e := range t.Events {
		levels := threads[e.Thread]
		if levels == nil {
			levels = map[int]*calls{}
			threads[e.Thread] = levels
		}
		for depth, c := range levels {
			if depth > e.Depth {
				finish(c)
				delete(levels, depth)
			}
		}
		if e.Kind != trace.KindCall {
			continue
		}
		c := levels[e.Depth]
		if c == nil || c.function != e.Func {
			if c != nil {
				finish(c)
			}
			c = &calls{function: e.Func}
			levels[e.Depth] = c
		}
		c.at = append(c.at, i)
	}
	for _, levels := range threads {
		for _, c := range levels {
			finish(c)
		}
	}
	return found
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
