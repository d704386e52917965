package trace

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChrome(t *testing.T) {
	t.Parallel()
	var got []string
	for _, e := range Chrome(caught()).TraceEvents {
		got = append(got, fmt.Sprintf("%s %s", e.Ph, e.Name))
	}
	want := []string{
		"M process_name", "M thread_name", "B <module>", "B Job.run", "B make.<locals>.gen", "E make.<locals>.gen", "B make.<locals>.gen",
		"i Missing", "E make.<locals>.gen", "E Job.run", "E <module>",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	run := Chrome(caught()).TraceEvents[3]
	if run.Args["arg items"] != "[1]" || run.Args["file"] != "main.py" || run.Cat != "function" {
		t.Errorf("got %+v", run)
	}
	if got := Chrome(nil); got.TraceEvents == nil || len(got.TraceEvents) != 0 {
		t.Errorf("of no trace: got %+v", got)
	}
}

// TestChromeNests checks on traces of any kind, gaps and forgeries among them, that in each thread every
// beginning has its end, in the order of a stack, and that time does not go back.
func TestChromeNests(t *testing.T) {
	t.Parallel()
	kinds := []Kind{KindCall, KindLine, KindReturn, KindYield, KindResume, KindThrow, KindException, KindUnwind, "odd"}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		tr := &Trace{Functions: []Function{{ID: 1, Name: "f"}, {ID: 2, Name: "g"}}}
		for i := range r.IntN(200) {
			tr.Events = append(tr.Events, Event{
				Seq: int64(i), Kind: kinds[r.IntN(len(kinds))], Func: r.IntN(4), Frame: r.IntN(6), Depth: r.IntN(8) - 1, Thread: 1 + r.IntN(3), T: int64(r.IntN(1000)),
			})
		}
		stacks, last := map[int][]string{}, map[int]int64{}
		for _, e := range Chrome(tr).TraceEvents {
			if e.Ph != "M" && e.TS < last[e.TID] {
				t.Fatalf("seed %d: time goes back in thread %d", seed, e.TID)
			}
			last[e.TID] = max(last[e.TID], e.TS)
			stack := stacks[e.TID]
			switch e.Ph {
			case "B":
				stacks[e.TID] = append(stack, e.Name)
			case "E":
				if len(stack) == 0 || stack[len(stack)-1] != e.Name {
					t.Fatalf("seed %d: %q ends in %v", seed, e.Name, stack)
				}
				stacks[e.TID] = stack[:len(stack)-1]
			}
		}
		for thread, stack := range stacks {
			if len(stack) != 0 {
				t.Fatalf("seed %d: thread %d leaves %v open", seed, thread, stack)
			}
		}
	}
}

func TestPyTutor(t *testing.T) {
	t.Parallel()
	in := PyTutorInput{Code: "code", Entrypoint: "main.py", Stdout: "äb\n", Exception: &Exception{Type: "app.errors.Missing", Message: "'k'", File: "main.py", Line: 7}}
	tr := caught()
	tr.Events[2].Out = &[2]int64{2, 0}
	doc := PyTutor(tr, in)
	var got []string
	for _, s := range doc.Trace {
		got = append(got, fmt.Sprintf("%s %d %s %q", s.Event, s.Line, s.FuncName, s.Stdout))
	}
	want := []string{
		`call 1 <module> ""`, `step_line 7 <module> ""`, `call 4 run "ä"`, `return 6 run "ä"`, `uncaught_exception 7 run "äb\n"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	call := doc.Trace[2]
	if len(call.Stack) != 1 || call.Stack[0].FuncName != "run" || !call.Stack[0].Highlighted || call.Stack[0].OrderedNames[0] != "items" {
		t.Errorf("stack: got %+v", call.Stack)
	}
	encoded := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if got := encoded([]any{call.Stack[0].Locals, call.Heap}); got != `[{"items":["REF",1]},{"1":["LIST",1]}]` {
		t.Errorf("values: got %s", got)
	}
	back := doc.Trace[3]
	if names := back.Stack[0].OrderedNames; names[len(names)-1] != "__return__" || encoded(back.Stack[0].Locals["__return__"]) != "null" {
		t.Errorf("return: got %+v", back.Stack[0])
	}
}

// TestNothingIsKnownOverAGap checks that values from before a gap are not shown
// as those after it, and that a gap in which nothing is missing changes nothing.
func TestNothingIsKnownOverAGap(t *testing.T) {
	t.Parallel()
	for skipped, want := range map[int64][]string{5: {}, -1: {}, 0: {"x"}} {
		tr := &Trace{
			Files: []File{{ID: 1, Path: "main.py"}}, Functions: []Function{{ID: 1, Name: "<module>", File: 1, Line: 1, Kind: "module"}},
			Events: []Event{
				{Seq: 1, Kind: KindLine, Func: 1, Frame: 1, Line: 1, Depth: 1, Thread: 1, Vars: Vars{{"x", Value(`["REF",1]`)}}, Heap: Heap{{1, Value(`["LIST",1]`)}}},
				{Seq: 9, Kind: KindReturn, Func: 1, Frame: 1, Line: 2, Depth: 1, Thread: 1, Unseen: true, Value: Value(`["REF",1]`)},
			},
			Gaps: []Gap{{AfterSeq: 1, Skipped: skipped, Cause: GapEvents}},
		}
		steps := PyTutor(tr, PyTutorInput{Entrypoint: "main.py"}).Trace
		if diff := cmp.Diff(want, steps[1].OrderedGlobals); diff != "" {
			t.Errorf("skipped %d: Python Tutor (-want +got):\n%s", skipped, diff)
		}
		known := skipped == 0
		if got := *ExecraLog(tr)[1].ReturnValue; (got == "[1]") != known {
			t.Errorf("skipped %d: Execra has the value %q", skipped, got)
		}
		chrome := Chrome(tr).TraceEvents
		if got := chrome[len(chrome)-1].Args["value"]; (got == "[1]") != known {
			t.Errorf("skipped %d: Chrome has the value %q", skipped, got)
		}
	}
}

func TestPyTutorEnds(t *testing.T) {
	t.Parallel()
	column := 6
	syntax := PyTutor(nil, PyTutorInput{Code: "print('", Entrypoint: "main.py", Exception: &Exception{Type: "SyntaxError", Message: "unterminated", File: "main.py", Line: 1, Column: &column}})
	if len(syntax.Trace) != 1 || syntax.Trace[0].Event != "uncaught_exception" || syntax.Trace[0].Offset != 6 || syntax.Trace[0].ExceptionMsg != "SyntaxError: unterminated" {
		t.Errorf("syntax error: got %+v", syntax.Trace)
	}
	long := &Trace{Functions: []Function{{ID: 1, Name: "<module>", File: 1, Kind: "module"}}, Files: []File{{ID: 1, Path: "main.py"}}}
	for i := range 3000 {
		long.Events = append(long.Events, Event{Seq: int64(i), Kind: KindLine, Func: 1, Frame: 1, Line: 1, Depth: 1, Thread: 1})
	}
	doc := PyTutor(long, PyTutorInput{Entrypoint: "main.py"})
	if n := len(doc.Trace); n != PyTutorSteps || doc.Trace[n-1].Event != "instruction_limit_reached" {
		t.Errorf("a long one: got %d steps, the last %s", n, doc.Trace[n-1].Event)
	}
	cut := &Trace{Events: long.Events[:2], Functions: long.Functions, Files: long.Files, Gaps: []Gap{{AfterSeq: 1}}}
	if doc := PyTutor(cut, PyTutorInput{Entrypoint: "main.py"}); doc.Trace[len(doc.Trace)-1].Event != "instruction_limit_reached" {
		t.Errorf("with a gap: got %+v", doc.Trace)
	}
	whole := &Trace{Events: long.Events[:2], Functions: long.Functions, Files: long.Files}
	stopped := PyTutor(whole, PyTutorInput{Entrypoint: "main.py", Stopped: "Code execution timed out after 3s."}).Trace
	if end := stopped[len(stopped)-1]; end.Event != "instruction_limit_reached" || end.ExceptionMsg != "Code execution timed out after 3s." {
		t.Errorf("of a program that was stopped: got %+v", end)
	}
}

// TestPyTutorValues checks that only what the page of Python Tutor knows comes out.
func TestPyTutorValues(t *testing.T) {
	t.Parallel()
	heap := map[int]string{
		1: `["LIST",["REF",1],["ELIDED",5]]`, 2: `["DICT",["k",["REF",1]],["ELIDED",2]]`, 3: `["INSTANCE","A",["x",1],["ELIDED",1]]`,
		4: `["INSTANCE_PPRINT","Decimal","1.5"]`, 5: `["CLASS","A",["B"],["y",2]]`, 6: `["BYTES","6162",2]`, 7: `["FROZENSET",1]`, 8: `["FORGED",{}]`,
	}
	tests := map[string]string{
		`1`: `1`, `"s"`: `"s"`, `null`: `null`, `["SPECIAL_FLOAT","NaN"]`: `["SPECIAL_FLOAT","NaN"]`,
		`["BIGINT","12345678901234567890"]`: `["IMPORTED_FAUX_PRIMITIVE","12345678901234567890"]`,
		`["FUNCTION","f"]`:                  `["IMPORTED_FAUX_PRIMITIVE","\u003cfunction f\u003e"]`,
		`["REF",99]`:                        `["IMPORTED_FAUX_PRIMITIVE","…"]`,
		`[]`:                                `["IMPORTED_FAUX_PRIMITIVE","?"]`,
	}
	objects := map[int]string{
		1: `["LIST",["REF",1],["IMPORTED_FAUX_PRIMITIVE","… 5 more"]]`, 2: `["DICT",["k",["REF",1]],["…",["IMPORTED_FAUX_PRIMITIVE","… 2 more"]]]`,
		3: `["INSTANCE","A",["x",1],["…",["IMPORTED_FAUX_PRIMITIVE","… 1 more"]]]`, 4: `["INSTANCE_PPRINT","Decimal","1.5"]`, 5: `["CLASS","A",["B"],["y",2]]`,
		6: `["HEAP_PRIMITIVE","value","b'ab'"]`, 7: `["SET",1]`,
	}
	w := tutorWriter{objects: Objects{}}
	for ref, v := range heap {
		w.objects[ref] = Value(v)
	}
	check := func(what string, got any, want string) {
		data, err := json.Marshal(got)
		if err != nil || string(data) != want {
			t.Errorf("%s: got %s, %v, want %s", what, data, err, want)
		}
	}
	for v, want := range tests {
		check(v, w.value(Value(v), map[string][]any{}), want)
	}
	for ref, want := range objects {
		out := map[string][]any{}
		check(heap[ref], w.value(Value(fmt.Sprintf(`["REF",%d]`, ref)), out), fmt.Sprintf(`["REF",%d]`, ref))
		check(heap[ref], out[fmt.Sprint(ref)], want)
	}
	_ = w.value(Value(`["REF",8]`), map[string][]any{}) // whatever it becomes, it ends
}
