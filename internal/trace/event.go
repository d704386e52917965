package trace

import "encoding/json"

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

// eventExtra is what an event record may carry beyond its numbers.
type eventExtra struct {
	Vars      []json.RawMessage `json:"v"` // names and values in turn
	Heap      []json.RawMessage `json:"h"` // reference numbers and contents in turn
	Value     json.RawMessage   `json:"r"`
	Exception []string          `json:"x"` // type, message
	Out       []int64           `json:"o"` // bytes of stdout, of stderr
}

// event reads one record of the events' area: kind, function, frame, line,
// depth, thread, time, and what else there is. Events are numbered in order.
func (d *decoder) event(payload []byte) error {
	if int64(len(d.trace.Events)) >= d.opts.EventBudget {
		return errRecord
	}
	list, err := items(payload)
	if err != nil || len(list) < 7 || len(list) > 8 {
		return errRecord
	}
	var n [7]int64
	for i, high := range [7]int64{
		int64(len(eventKinds) - 1), int64(len(d.codes)), maxNumber, maxLine, maxNumber, maxNumber, maxSafe,
	} {
		low := int64(1)
		if i == 0 || i == 3 || i == 4 || i == 6 {
			low = 0
		}
		if n[i], err = integer(list[i], low, high); err != nil {
			return err
		}
	}
	e := Event{
		Seq: int64(len(d.trace.Events) + 1), Kind: eventKinds[n[0]], Func: int(n[1]), Frame: int(n[2]), Line: int(n[3]),
		Depth: int(n[4]), Thread: int(n[5]), T: n[6],
	}
	if err := d.place(e); err != nil {
		return err
	}
	if len(list) == 8 {
		if err := e.extend(list[7]); err != nil {
			return err
		}
	}
	d.trace.Events = append(d.trace.Events, e)
	return nil
}

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

// extend reads what the event carries beyond its numbers.
func (e *Event) extend(raw json.RawMessage) error {
	var x eventExtra
	if err := json.Unmarshal(raw, &x); err != nil || raw[0] != '{' {
		return errRecord
	}
	if len(x.Vars)%2 != 0 || len(x.Vars) > 2*maxVariables || len(x.Heap)%2 != 0 || len(x.Heap) > 2*maxObjects {
		return errRecord
	}
	for i := 0; i < len(x.Vars); i += 2 {
		name, err := text(x.Vars[i], maxName)
		if err != nil {
			return err
		}
		if err := checkValue(x.Vars[i+1], 0); err != nil {
			return err
		}
		e.Vars = append(e.Vars, Var{Name: name, Value: x.Vars[i+1]})
	}
	for i := 0; i < len(x.Heap); i += 2 {
		ref, err := integer(x.Heap[i], 1, maxNumber)
		if err != nil {
			return err
		}
		if err := checkValue(x.Heap[i+1], 0); err != nil {
			return err
		}
		e.Heap = append(e.Heap, HeapEntry{Ref: int(ref), Value: x.Heap[i+1]})
	}
	return e.extendEnds(x)
}

// extendEnds reads value, exception and output.
func (e *Event) extendEnds(x eventExtra) error {
	if x.Value != nil {
		if err := checkValue(x.Value, 0); err != nil {
			return err
		}
		e.Value = x.Value
	}
	if x.Exception != nil {
		if len(x.Exception) != 2 || len(x.Exception[0]) > maxName || len(x.Exception[1]) > maxName {
			return errRecord
		}
		e.Exception = &EventException{Type: x.Exception[0], Message: x.Exception[1]}
	}
	if x.Out != nil {
		if len(x.Out) != 2 || min(x.Out[0], x.Out[1]) < 0 || max(x.Out[0], x.Out[1]) > maxSafe {
			return errRecord
		}
		e.Out = &[2]int64{x.Out[0], x.Out[1]}
	}
	return nil
}
