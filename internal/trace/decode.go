package trace

import (
	"fmt"
	"slices"
)

// Options says what is known of the job whose trace is decoded.
type Options struct {
	// Entrypoint is the file that ran, as the job names it.
	Entrypoint string
	// Files holds the sources of the job by path.
	Files map[string]string
	// Mode is the job's trace mode: full, lines, calls or off.
	Mode string
	// EventBudget is the job's trace_events.
	EventBudget int64
}

// Recording is what a trace memory says. All of it is testimony: the program
// could have written it.
type Recording struct {
	// Trace and Summary are nil when the program ran untraced, or when
	// nothing in the memory could be read.
	Trace   *Trace
	Summary *Summary
	// Effects is what the program reached for, in the order of the first time.
	Effects []Effect
	// Exception is the uncaught one; nil when there was none.
	Exception *Exception
	// SyntaxError is true when the entrypoint did not compile.
	SyntaxError bool
	// Ended is true when the end record is there: the interpreter came to its own end.
	Ended bool
	// Complete is true when the end record is there and nothing was corrupt.
	Complete bool
	// Detached is true when the program switched the tracer off.
	Detached bool
	// StdinExhausted is true when the program read past the end of its stdin.
	StdinExhausted bool
	// Notes says what is missing or odd, one sentence each.
	Notes []string
	// Hits lists the limits that the tracer saw being hit: open_files disk
	// inodes file_size trace_events trace_bytes.
	Hits []string
	// ExitKind is how the interpreter ended: exit, exception or syntax_error;
	// empty without an end record.
	ExitKind string
}

// The areas of the trace memory, as package wire has them.
const (
	areaEvents = iota
	areaDefs
	areaCounters
	areaEnd
	areaRing
	areaNotes
	areaCount
)

// modeOff is the trace mode in which there is neither Trace nor Summary.
const modeOff = "off"

// Decode reads the committed bytes of the areas of a trace memory. It never
// fails: what comes after the first bad record of an area is left out, with a
// note. The outcome holds no reference to the areas. Its size and the work are
// bounded by a small multiple of the areas' and the sources' size.
func Decode(areas [areaCount][]byte, opts Options) Recording {
	d := &decoder{opts: opts, frames: map[int]int{}, counters: readCounters(areas[areaCounters])}
	d.note("definitions", records(areas[areaDefs], d.definition))
	d.note("end record", records(areas[areaEnd], d.end))
	if opts.Mode != modeOff && len(areas[areaDefs]) > 0 {
		d.trace = &Trace{
			Schema: Schema, Producer: d.producer, Files: d.fileList(), Functions: d.functionList(),
			Events: []Event{}, Gaps: []Gap{},
		}
		err := d.events(areas[areaEvents])
		d.note("events", err)
		kept := int64(len(d.trace.Events))
		d.path = d.executionPath()
		d.note("last events", d.tail(areas[areaRing]))
		d.note("notes", d.notes(areas[areaNotes]))
		d.rec.Trace = d.trace
		d.rec.Summary = d.summary()
		d.gaps(kept, err != nil)
	}
	d.testimony()
	d.rec.Complete = d.rec.Ended && !d.corrupt
	return d.rec
}

// decoder holds what is known so far.
type decoder struct {
	opts     Options
	counters []uint64
	producer Producer
	files    []*file
	codes    []*code
	loops    []loop
	edges    []edge
	// nextSlot is the first counter that no function has.
	nextSlot int
	// sources holds the lines of the job's files that were asked for.
	sources map[string][]string
	trace   *Trace
	// frames holds the function of each frame.
	frames map[int]int
	// path names the functions called before the first gap.
	path []string
	// noted is what the notes say, for the summary.
	noted   noted
	rec     Recording
	corrupt bool
}

// note remembers that an area was cut.
func (d *decoder) note(area string, err error) {
	if err == nil {
		return
	}
	d.corrupt = true
	d.rec.Notes = append(d.rec.Notes, fmt.Sprintf("the %s of the trace were cut: %v", area, err))
}

// end reads the end record.
func (d *decoder) end(payload []byte) error {
	if d.rec.Ended {
		return errRecord
	}
	list, err := items(payload)
	if err != nil || len(list) != 2 || string(list[0]) != `"end"` {
		return errRecord
	}
	kind, err := text(list[1], maxString)
	if err != nil || !slices.Contains([]string{"exit", "exception", "syntax_error"}, kind) {
		return errRecord
	}
	d.rec.Ended, d.rec.ExitKind = true, kind
	return nil
}

// gaps says where events are missing, and why.
// after is the number of the last event before the gap.
func (d *decoder) gaps(after int64, corrupt bool) {
	t := d.trace
	skipped := int64(-1)
	if s := d.rec.Summary; s.CountsExact {
		skipped = max(s.EventsTotal-int64(len(t.Events)), 0)
		if int64(len(t.Events)) > after {
			skipped = t.Events[after].Seq - after - 1
		}
	}
	stopped := d.counter(counterStopped)
	switch {
	case corrupt || stopped == 0 && int64(len(t.Events)) > after:
		t.Gaps = append(t.Gaps, Gap{AfterSeq: after, Skipped: -1, Cause: GapCorrupt})
	case stopped == stoppedByEvents && (skipped != 0 || int64(len(t.Events)) > after):
		t.Gaps = append(t.Gaps, Gap{AfterSeq: after, Skipped: skipped, Cause: GapEvents})
		d.rec.Hits = append(d.rec.Hits, "trace_events")
	case stopped == stoppedByBytes:
		t.Gaps = append(t.Gaps, Gap{AfterSeq: after, Skipped: skipped, Cause: GapBytes})
		t.Truncation.Bytes = true
		d.rec.Hits = append(d.rec.Hits, "trace_bytes")
	case stopped == stoppedByTime:
		t.Gaps = append(t.Gaps, Gap{AfterSeq: after, Skipped: skipped, Cause: GapTime})
	}
	t.Truncation.Events = len(t.Gaps) > 0
	t.Truncation.Values = d.counter(counterShortened)
}

// testimony reads the flags.
func (d *decoder) testimony() {
	flags := d.counter(counterFlags)
	for _, hit := range []struct {
		bit  int64
		name string
	}{
		{flagHitFiles, "open_files"}, {flagHitDisk, "disk"}, {flagHitInodes, "inodes"}, {flagHitFileSize, "file_size"},
	} {
		if flags&hit.bit != 0 {
			d.rec.Hits = append(d.rec.Hits, hit.name)
		}
	}
	d.rec.StdinExhausted = flags&flagInputEnded != 0
	d.rec.Detached = flags&flagDetached != 0
	if d.rec.Detached {
		d.rec.Notes = append(d.rec.Notes, "the program switched the tracer off; what came after is missing")
	}
	if flags&flagInterpreters != 0 {
		d.rec.Notes = append(d.rec.Notes, "the program started another interpreter in its process; what ran there is not traced")
	}
	if flags&flagForked != 0 {
		d.rec.Notes = append(d.rec.Notes, "the program forked; its child processes are not traced")
	}
	if n := d.counter(counterLost); n > 0 {
		d.rec.Notes = append(d.rec.Notes, fmt.Sprintf("%d events could not be recorded (recursion limit or memory exhausted)", n))
	}
	if n := d.counter(counterUnknown); n > 0 {
		d.rec.Notes = append(d.rec.Notes, fmt.Sprintf("there was no room to follow %d functions or callers", n))
	}
}
