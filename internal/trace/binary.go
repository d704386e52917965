package trace

// binaryFormat is the first byte of an area with events in bytes.
const binaryFormat = 2

// What a record has besides its head.
const (
	hasVariables = 1 << iota
	hasValue
	hasObjects
	hasError
	hasOutput
	hasLooked
)

// byName says that a variable's name follows, instead of its place in the function.
const byName = 255

// shortHead marks a kind whose record is of an event in the frame, thread and
// depth of the record before it.
const shortHead = 8

// recordReader reads records that follow each other.
type recordReader struct {
	byteReader
	d *decoder
	// before is the event of the record before.
	before Event
}

// events reads the records of the events' area. Events are numbered in order.
func (d *decoder) events(area []byte) error {
	if len(area) == 0 {
		return nil
	}
	if area[0] != binaryFormat {
		return errFormat
	}
	r := &recordReader{byteReader: byteReader{rest: area[1:]}, d: d}
	for len(r.rest) > 0 {
		if int64(len(d.trace.Events)) >= d.opts.EventBudget {
			return errRecord
		}
		e, _, err := r.event()
		if err != nil {
			return err
		}
		e.Seq = int64(len(d.trace.Events) + 1)
		d.trace.Events = append(d.trace.Events, e)
	}
	return nil
}

// number32 reads four bytes, a number up to limit.
func (r *byteReader) number32(limit uint32) uint32 {
	n := r.uint32()
	if n > limit {
		r.bad = true
		return 0
	}
	return n
}

// head reads where and when an event was.
func (r *recordReader) head(kind byte) (e Event) {
	if kind&shortHead != 0 {
		e = Event{
			Func: r.before.Func, Frame: r.before.Frame, Depth: r.before.Depth, Thread: r.before.Thread,
			T: r.before.T + int64(r.uint16()), Line: int(r.number32(maxLine)),
		}
	} else {
		e = Event{
			Thread: int(r.uint16()), Func: int(r.number32(uint32(len(r.d.codes)))), Frame: int(r.number32(maxNumber)),
			Line: int(r.number32(maxLine)), Depth: int(r.number32(maxNumber)), T: int64(r.uint32()),
		}
	}
	r.bad = r.bad || int(kind&^shortHead) >= len(eventKinds) || e.Thread == 0 || e.Func == 0 || e.Frame == 0
	if !r.bad {
		e.Kind = eventKinds[kind&^shortHead]
	}
	return e
}

// event reads one record: the event without its number, and what it has.
func (r *recordReader) event() (e Event, has byte, err error) {
	kind := r.byte()
	has = r.byte()
	e = r.head(kind)
	if r.bad {
		return e, 0, errRecord
	}
	r.before = e
	if err := r.d.place(e); err != nil {
		return e, 0, err
	}
	if has&hasVariables != 0 {
		e.Vars = r.variables(r.d.codes[e.Func-1])
	}
	if has&hasValue != 0 {
		e.Value = appendValue(nil, &r.byteReader)
	}
	if has&hasObjects != 0 {
		for range r.byte() {
			ref := r.number(maxNumber)
			e.Heap = append(e.Heap, HeapEntry{Ref: int(ref), Value: appendContent(nil, &r.byteReader)})
			r.bad = r.bad || ref == 0
		}
	}
	if has&hasError != 0 {
		e.Exception = &EventException{Type: r.text(maxName), Message: r.text(maxName)}
	}
	if has&hasOutput != 0 {
		e.Out = &[2]int64{int64(r.number(maxSafe)), int64(r.number(maxSafe))}
	}
	if r.bad || len(e.Heap) > maxObjects {
		return e, 0, errRecord
	}
	return e, has, nil
}

// variables reads the changed variables of a function's frame.
func (r *recordReader) variables(c *code) Vars {
	count := int(r.byte())
	if count > maxVariables {
		r.bad = true
		return nil
	}
	vars := make(Vars, 0, count)
	for range count {
		var name string
		switch at := int(r.byte()); {
		case at == byName:
			name = r.text(maxName)
		case at < len(c.variables):
			name = c.variables[at]
		default:
			r.bad = true
		}
		if r.bad {
			return nil
		}
		vars = append(vars, Var{Name: name, Value: appendValue(nil, &r.byteReader)})
	}
	return vars
}
