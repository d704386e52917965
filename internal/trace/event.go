package trace

// eventKinds are the kinds by the number that event records have.
var eventKinds = [...]Kind{
	KindCall, KindLine, KindReturn, KindYield, KindResume, KindThrow, KindException, KindUnwind,
}

const (
	// maxVariables bounds the changed variables of one event, maxObjects the heap entries.
	maxVariables = 400
	maxObjects   = 200
	// maxNumber bounds depths and threads.
	maxNumber = 1 << 30
)

// place checks that a frame stays with its function, and a line within what
// the function has.
func (d *decoder) place(e Event) error {
	if before, ok := d.frames[e.Frame]; ok && before != e.Func {
		return errRecord
	}
	d.frames[e.Frame] = e.Func
	c := d.codes[e.Func-1]
	if e.Kind == KindLine && len(c.runs) > 0 && !c.hasLine(e.Line) {
		return errRecord
	}
	if f := d.files[c.File-1]; f.known && e.Line > f.Lines {
		return errRecord
	}
	return nil
}

// hasLine tells whether the function has a counter for the line.
func (c *code) hasLine(line int) bool {
	low, high := 0, len(c.runs)
	for low < high {
		middle := (low + high) / 2
		if c.runs[middle][1] < line {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low < len(c.runs) && c.runs[low][0] <= line
}
