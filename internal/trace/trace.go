// Package trace holds execution-trace/1: what the tracer recorded, line by
// line. It decodes the trace memory that a sandbox hands out, which is hostile
// input, checks and caps it, and converts the outcome for other tools.
package trace

import "encoding/json"

// Schema identifies the Trace document.
const Schema = "execution-trace/1"

// Trace is the record of one run. Its events are the first ones up to the
// budget, and after a gap the last ones; Summary covers the whole run.
type Trace struct {
	Schema     string     `json:"schema"`
	Producer   Producer   `json:"producer"`
	Files      []File     `json:"files"`
	Functions  []Function `json:"functions"`
	Events     []Event    `json:"events"`
	Gaps       []Gap      `json:"gaps"`
	Truncation Truncation `json:"truncation"`
}

// Producer names the tracer that wrote the trace.
type Producer struct {
	Tracer string `json:"tracer"`
	Python string `json:"python"`
	Trust  string `json:"trust"`
}

// File is a source file of the job, or code that user code compiled ("<string>").
type File struct {
	ID    int    `json:"id"`
	Path  string `json:"path"`
	Lines int    `json:"lines"`
}

// Function is one code object of user code.
type Function struct {
	ID int `json:"id"`
	// Name is the qualified name, "<module>" for a file's own code.
	Name string   `json:"name"`
	File int      `json:"file"`
	Line int      `json:"line"`
	Kind string   `json:"kind"` // function module class lambda genexpr generator coroutine async_generator
	Args []string `json:"args"`
}

// Kind is what happened.
type Kind string

// The event kinds. A line event comes before its line runs.
const (
	KindCall      Kind = "call"
	KindLine      Kind = "line"
	KindReturn    Kind = "return"
	KindYield     Kind = "yield"
	KindResume    Kind = "resume"
	KindThrow     Kind = "throw"
	KindException Kind = "exception"
	KindUnwind    Kind = "unwind"
)

// Event is one step of the program.
type Event struct {
	Seq    int64 `json:"seq"`
	Kind   Kind  `json:"event"`
	Func   int   `json:"func"`
	Frame  int   `json:"frame"`
	Line   int   `json:"line"`
	Depth  int   `json:"depth"`
	Thread int   `json:"thread"`
	// T is the time since the program started, in microseconds.
	T int64 `json:"t"`
	// Vars holds the variables that changed since this frame's last event.
	Vars Vars `json:"vars,omitempty"`
	// Heap holds the shown objects whose content differs from what this trace last said.
	Heap Heap `json:"heap,omitempty"`
	// Value is what a return or yield hands over; nil otherwise.
	Value     Value           `json:"value,omitempty"`
	Exception *EventException `json:"exception,omitempty"`
	// Out is how many bytes of stdout and stderr the program had written
	// before this event; nil when unchanged since the event before.
	Out *[2]int64 `json:"out,omitempty"`
	// Unseen is true for an event after a gap at which variables were not
	// looked at: that nothing changed is not known.
	Unseen bool `json:"unseen,omitempty"`
}

// Value is one shown value in the Python Tutor (OPT v3) encoding with the
// bounded tags STR, BYTES, BIGINT and ELIDED. It is valid JSON.
type Value = json.RawMessage

// Var is a variable and its new value. A deleted variable has the value ["DEL"].
type Var struct {
	Name  string
	Value Value
}

// Vars are variables in the order of the frame. In JSON they are one object.
type Vars []Var

// HeapEntry is the shown content of the object with the given reference number.
type HeapEntry struct {
	Ref   int
	Value Value
}

// Heap is a list of objects. In JSON it is one object keyed by the reference number.
type Heap []HeapEntry

// EventException is an exception at the moment it is raised.
type EventException struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// Gap is a place where events are missing.
type Gap struct {
	AfterSeq int64 `json:"after_seq"`
	// Skipped is how many events are missing, -1 when unknown.
	Skipped int64  `json:"skipped"`
	Cause   string `json:"cause"`
}

// The causes of a Gap.
const (
	GapEvents  = "event_limit"
	GapBytes   = "byte_limit"
	GapTime    = "time_limit" // recording had taken its share of the processor time
	GapCorrupt = "corrupt"
)

// gapsOf returns a function that is to be called for each event of t in turn, and
// tells whether events are missing between it and the one before.
func gapsOf(t *Trace) func(Event) bool {
	gaps := t.Gaps
	return func(e Event) bool {
		found := false
		for len(gaps) > 0 && gaps[0].AfterSeq < e.Seq {
			found = found || gaps[0].Skipped != 0
			gaps = gaps[1:]
		}
		return found
	}
}

// Truncation says what was left out.
type Truncation struct {
	Events bool `json:"events"`
	Bytes  bool `json:"bytes"`
	// Values counts the values that were shown shortened.
	Values int64 `json:"values"`
}
