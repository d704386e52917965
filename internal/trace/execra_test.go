package trace

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// caught is a trace of:
//
//	def gen(n):
//	    yield n
//	    raise KeyError("k")
//	def run(items):
//	    try: list(gen(items))
//	    except KeyError: return None
//	run([1])
func caught() *Trace {
	return &Trace{
		Files: []File{{ID: 1, Path: "main.py"}, {ID: 2, Path: "lib/gen.py"}},
		Functions: []Function{
			{ID: 1, Name: "<module>", File: 1, Line: 1, Kind: "module"},
			{ID: 2, Name: "Job.run", File: 1, Line: 4, Kind: "function", Args: []string{"items"}},
			{ID: 3, Name: "make.<locals>.gen", File: 2, Line: 1, Kind: "generator", Args: []string{"n"}},
		},
		Events: []Event{
			{Seq: 1, Kind: KindCall, Func: 1, Frame: 1, Line: 1, Depth: 1, Thread: 1},
			{Seq: 2, Kind: KindLine, Func: 1, Frame: 1, Line: 7, Depth: 1, Thread: 1},
			{Seq: 3, Kind: KindCall, Func: 2, Frame: 2, Line: 4, Depth: 2, Thread: 1, Vars: Vars{{"items", Value(`["REF",1]`)}}, Heap: Heap{{1, Value(`["LIST",1]`)}}},
			{Seq: 4, Kind: KindCall, Func: 3, Frame: 3, Line: 1, Depth: 3, Thread: 1, Vars: Vars{{"n", Value(`["REF",1]`)}}},
			{Seq: 5, Kind: KindYield, Func: 3, Frame: 3, Line: 2, Depth: 3, Thread: 1, Value: Value(`["REF",1]`)},
			{Seq: 6, Kind: KindResume, Func: 3, Frame: 3, Line: 2, Depth: 3, Thread: 1},
			{Seq: 7, Kind: KindException, Func: 3, Frame: 3, Line: 3, Depth: 3, Thread: 1, Exception: &EventException{Type: "app.errors.Missing", Message: "'k'\nmore"}},
			{Seq: 8, Kind: KindUnwind, Func: 3, Frame: 3, Line: 3, Depth: 3, Thread: 1},
			{Seq: 9, Kind: KindReturn, Func: 2, Frame: 2, Line: 6, Depth: 2, Thread: 1, Value: Value(`null`)},
		},
	}
}

func TestExecraLog(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	none := map[string]string{}
	want := []ExecraEvent{
		{EventType: "call", Function: "<module>", Lineno: 1, Args: none, Line: 1, File: "main.py", Depth: 1, Thread: 1, Seq: 1},
		{EventType: "line", Function: "<module>", Lineno: 7, Args: none, Line: 7, File: "main.py", Depth: 1, Thread: 1, Seq: 2},
		{EventType: "call", Function: "run", Lineno: 4, Args: map[string]string{"items": "[1]"}, Line: 4, File: "main.py", Depth: 2, Thread: 1, Seq: 3},
		{EventType: "call", Function: "gen", Lineno: 1, Args: map[string]string{"n": "[1]"}, Line: 1, File: "lib/gen.py", Depth: 3, Thread: 1, Seq: 4},
		{EventType: "return", Function: "gen", Lineno: 2, Args: none, ReturnValue: text("[1]"), Line: 2, File: "lib/gen.py", Depth: 3, Thread: 1, Seq: 5},
		{EventType: "call", Function: "gen", Lineno: 2, Args: none, Line: 2, File: "lib/gen.py", Depth: 3, Thread: 1, Seq: 6},
		{EventType: "exception", Function: "gen", Lineno: 3, Args: none, Exception: text("Missing: 'k'\nmore"), Line: 3, File: "lib/gen.py", Depth: 3, Thread: 1, Seq: 7},
		{EventType: "return", Function: "gen", Lineno: 3, Args: none, Line: 3, File: "lib/gen.py", Depth: 3, Thread: 1, Seq: 8},
		{EventType: "return", Function: "run", Lineno: 6, Args: none, ReturnValue: text("None"), Line: 6, File: "main.py", Depth: 2, Thread: 1, Seq: 9},
	}
	if diff := cmp.Diff(want, ExecraLog(caught())); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if got := ExecraLog(nil); got == nil || len(got) != 0 {
		t.Errorf("log of no trace = %v, want an empty list", got)
	}
}

// TestExecraKeys checks the six keys that Execra's own code reads: they are
// there in every event, with null where its tracer has None.
func TestExecraKeys(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(ExecraLog(caught()))
	if err != nil {
		t.Fatal(err)
	}
	var events []map[string]any
	if err := json.Unmarshal(data, &events); err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		for _, key := range []string{"event_type", "function", "lineno", "args", "return_value", "exception"} {
			if _, there := e[key]; !there {
				t.Errorf("event %v lacks %q", e["seq"], key)
			}
		}
	}
}

func TestExecraSummarize(t *testing.T) {
	t.Parallel()
	s := &Summary{
		TotalCalls: 3, TotalLines: 9, ExceptionsCaught: 1, MaxRecursionDepth: 2,
		ExecutionPath: []string{"<module>", "shop/a.b.py:<module>", "Job.run", "lib/gen.py:make.<locals>.<lambda>"},
		EventsTotal:   12, EventsKept: 12,
	}
	want := ExecraSummary{
		TotalCalls: 3, TotalLines: 9, ExceptionsCaught: 1, MaxRecursionDepth: 2,
		ExecutionPath: []string{"<module>", "<module>", "run", "<lambda>"}, EventsTotal: 12, EventsKept: 12,
	}
	if diff := cmp.Diff(&want, ExecraSummarize(s, &Trace{})); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if got := ExecraSummarize(nil, nil); got != nil {
		t.Errorf("summary of nothing = %v, want nil", got)
	}
	cut := map[string]*Trace{
		"events": {Truncation: Truncation{Events: true}},
		"bytes":  {Truncation: Truncation{Bytes: true}},
		"gap":    {Gaps: []Gap{{AfterSeq: 3}}},
	}
	for name, tr := range cut {
		if !ExecraSummarize(s, tr).Truncated {
			t.Errorf("%s missing: Truncated is false", name)
		}
	}
	s.EventsTotal = 13
	if !ExecraSummarize(s, nil).Truncated {
		t.Error("fewer kept than happened: Truncated is false")
	}
}
