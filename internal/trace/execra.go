package trace

import "strings"

// execraValueLimit is how many characters a value has in Execra's form at most.
const execraValueLimit = 200

// ExecraEvent is one event as Execra's CodeTracer records it: the six keys of
// its get_trace_log, which are always present, and beyond them what it lacks.
type ExecraEvent struct {
	EventType string `json:"event_type"` // call line return exception
	// Function is the bare name, as co_name gives it.
	Function string            `json:"function"`
	Lineno   int               `json:"lineno"`
	Args     map[string]string `json:"args"`
	// ReturnValue is the text of the value; "None" for a function that
	// returned None, nil for one that an exception ended, or without values.
	ReturnValue *string `json:"return_value"`
	Exception   *string `json:"exception"`

	// Line repeats Lineno under the name that Execra's ErrorDetector reads.
	Line   int    `json:"line"`
	File   string `json:"file"`
	Depth  int    `json:"depth"`
	Thread int    `json:"thread"`
	Seq    int64  `json:"seq"`
}

// ExecraSummary is the outcome of Execra's get_summary, counted over the whole
// run, and how much of the run the events cover.
type ExecraSummary struct {
	TotalCalls        int64    `json:"total_calls"`
	TotalLines        int64    `json:"total_lines"`
	ExceptionsCaught  int64    `json:"exceptions_caught"`
	MaxRecursionDepth int64    `json:"max_recursion_depth"`
	ExecutionPath     []string `json:"execution_path"`

	// Truncated is true when events are missing from the log.
	Truncated   bool  `json:"truncated"`
	EventsTotal int64 `json:"events_total"`
	EventsKept  int64 `json:"events_kept"`
}

// ExecraLog gives the events of t in the form of Execra's get_trace_log, in
// the order they happened. It is empty, never nil, when t is nil. A resumed
// generator is a call there and a yield a return, as sys.settrace has it.
func ExecraLog(t *Trace) []ExecraEvent {
	if t == nil {
		return []ExecraEvent{}
	}
	names := t.Names()
	objects := Objects{}
	log := make([]ExecraEvent, 0, len(t.Events))
	missing := gapsOf(t)
	for _, e := range t.Events {
		if missing(e) {
			objects = Objects{} // numbers may stand for others by now
		}
		objects.Apply(e)
		f := names.Function(e.Func)
		event := ExecraEvent{
			EventType: execraType(e.Kind), Function: bareName(f.Name), Lineno: e.Line, Args: map[string]string{},
			Line: e.Line, File: names.Path(f.File), Depth: e.Depth, Thread: e.Thread, Seq: e.Seq,
		}
		switch e.Kind {
		case KindCall:
			for _, v := range e.Vars {
				event.Args[v.Name] = objects.Text(v.Value, execraValueLimit)
			}
		case KindReturn, KindYield:
			if len(e.Value) > 0 {
				text := objects.Text(e.Value, execraValueLimit)
				event.ReturnValue = &text
			}
		case KindException:
			text := execraException(e.Exception)
			event.Exception = &text
		}
		log = append(log, event)
	}
	return log
}

// ExecraSummarize gives s in the form of Execra's get_summary. It is nil when
// the program ran untraced, or was lost before the tracer could count.
func ExecraSummarize(s *Summary, t *Trace) *ExecraSummary {
	if s == nil {
		return nil
	}
	path := make([]string, len(s.ExecutionPath))
	for i, name := range s.ExecutionPath {
		path[i] = bareName(name)
	}
	cut := t != nil && (t.Truncation.Events || t.Truncation.Bytes || len(t.Gaps) > 0)
	return &ExecraSummary{
		TotalCalls: s.TotalCalls, TotalLines: s.TotalLines, ExceptionsCaught: s.ExceptionsCaught,
		MaxRecursionDepth: s.MaxRecursionDepth, ExecutionPath: path,
		Truncated: cut || s.EventsKept < s.EventsTotal, EventsTotal: s.EventsTotal, EventsKept: s.EventsKept,
	}
}

func execraType(k Kind) string {
	switch k {
	case KindCall, KindResume, KindThrow:
		return "call"
	case KindReturn, KindYield, KindUnwind:
		return "return"
	}
	return string(k)
}

func execraException(e *EventException) string {
	if e == nil {
		return ""
	}
	return bareName(e.Type) + ": " + e.Message
}

// bareName is the last part of a qualified name: "run" of "app.py:Job.run".
// Only what stands before the name's own text can hold a colon or a dot.
func bareName(name string) string {
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name = name[i+1:]
	}
	return name[strings.LastIndexByte(name, '.')+1:]
}
