package render

import (
	"fmt"

	"github.com/execra/tracefleet/internal/trace"
)

// Of a deep recursion the outermost and the innermost levels are shown.
const (
	outerLevels = 4
	innerLevels = 2
)

// level is one call of a chain of calls, each made by the one before.
type level struct {
	function, frame int
	call            int // the index of its call event
	end             int // the index of the event that left it, -1 while it is open
}

// recursionFolds finds functions that call themselves many levels deep: the way
// down, and the way up if nothing else is called on it.
func recursionFolds(t *trace.Trace) []fold {
	names := t.Names()
	var found []fold
	threads := map[int][]level{}
	for i, e := range t.Events {
		stack := threads[e.Thread]
		switch e.Kind {
		case trace.KindCall:
			// Levels that have ended are kept until here, to see the whole chain.
			stack, found = popEnded(t.Events, names, stack, found)
			stack = append(stack, level{function: e.Func, frame: e.Frame, call: i, end: -1})
		case trace.KindReturn, trace.KindUnwind:
			for n := len(stack) - 1; n >= 0; n-- {
				if stack[n].frame == e.Frame {
					stack[n].end = i
					break
				}
			}
		}
		threads[e.Thread] = stack
	}
	for _, stack := range threads {
		_, found = popEnded(t.Events, names, stack, found)
		found = appendRecursion(found, t.Events, names, stack)
	}
	return found
}

// popEnded takes the calls that have ended off the stack. Those it takes off are
// the inner end of a chain that is now as deep as it will be.
func popEnded(events []trace.Event, names trace.Names, stack []level, found []fold) ([]level, []fold) {
	open := len(stack)
	for open > 0 && stack[open-1].end >= 0 {
		open--
	}
	if open == len(stack) {
		return stack, found
	}
	return stack[:open:open], appendRecursion(found, events, names, stack)
}

// appendRecursion folds the chain of calls of one function at the top of the stack.
func appendRecursion(found []fold, events []trace.Event, names trace.Names, stack []level) []fold {
	first := len(stack)
	for first > 0 && stack[first-1].function == stack[len(stack)-1].function {
		first--
	}
	chain := stack[first:]
	outer, inner := outerLevels, len(chain)-innerLevels
	if inner-outer < minFolded {
		return found
	}
	words := fmt.Sprintf("%s more levels of %s", number(int64(inner-outer)), functionName(names.Function(chain[0].function)))
	found = append(found, fold{from: chain[outer].call, to: chain[inner].call, frame: -1, words: words})
	from, to := chain[inner-1].end, chain[outer-1].end
	if from < 0 || to < 0 || !straight(events[from:to]) {
		return found
	}
	return append(found, fold{from: from, to: to, frame: -1, words: "back through " + words})
}

// straight tells whether no function is called in events.
func straight(events []trace.Event) bool {
	for _, e := range events {
		if e.Kind == trace.KindCall {
			return false
		}
	}
	return true
}
