package trace

import (
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// area makes an area of records.
func area(payloads ...string) []byte {
	out := []byte{recordFormat}
	for _, p := range payloads {
		out = binary.LittleEndian.AppendUint32(out, uint32(len(p)))
		out = append(out, p...)
	}
	return out
}

// counted makes an area of counters, of which the named ones are set.
func counted(size int, set map[int]uint64) []byte {
	out := make([]byte, 8*size)
	for i, n := range set {
		binary.LittleEndian.PutUint64(out[8*i:], n)
	}
	return out
}

// sound is a small recording without a fault, to be spoilt by tests.
func sound() ([4][]byte, Options) {
	return [4][]byte{
		area(`[0,1,1,1,1,1,0]`, `[1,1,1,1,1,1,5,{"v":["x",1,"y",["REF",1]],"h":[1,["LIST",1,2]]}]`,
			`[1,1,1,2,1,1,6,{"x":["KeyError","k"],"o":[3,4]}]`, `[2,1,1,2,1,1,7,{"r":null}]`),
		area(`["producer","py/1","3.13.5"]`, `["file",1,"main.py"]`, `["code",1,1,1,"<module>","module",[],16,[1,2]]`,
			`["loop",1,1,[18]]`, `["edge",1,1,19]`),
		counted(20, map[int]uint64{counterMaxDepth: 1, counterRaised: 1, counterOther: 1, 16: 1, 17: 1, 18: 1, 19: 3}),
		area(`["end","exit"]`),
	}, Options{Entrypoint: "main.py", Files: map[string]string{"main.py": "x = 1\ny = 2\n"}, Mode: "full", EventBudget: 100, ByteBudget: 4096}
}

func TestDecodeSound(t *testing.T) {
	t.Parallel()
	areas, opts := sound()
	got := Decode(areas, opts)
	want := Recording{
		Trace: &Trace{
			Schema: Schema, Producer: Producer{Tracer: "py/1", Python: "3.13.5", Trust: "in-process"},
			Files:     []File{{ID: 1, Path: "main.py", Lines: 2}},
			Functions: []Function{{ID: 1, Name: "<module>", File: 1, Line: 1, Kind: "module", Args: []string{}}},
			Events: []Event{
				{Seq: 1, Kind: KindCall, Func: 1, Frame: 1, Line: 1, Depth: 1, Thread: 1},
				{Seq: 2, Kind: KindLine, Func: 1, Frame: 1, Line: 1, Depth: 1, Thread: 1, T: 5,
					Vars: Vars{{"x", Value(`1`)}, {"y", Value(`["REF",1]`)}}, Heap: Heap{{1, Value(`["LIST",1,2]`)}}},
				{Seq: 3, Kind: KindLine, Func: 1, Frame: 1, Line: 2, Depth: 1, Thread: 1, T: 6,
					Exception: &EventException{Type: "KeyError", Message: "k"}, Out: &[2]int64{3, 4}},
				{Seq: 4, Kind: KindReturn, Func: 1, Frame: 1, Line: 2, Depth: 1, Thread: 1, T: 7, Value: Value("null")},
			},
			Gaps: []Gap{},
		},
		Summary: &Summary{
			TotalCalls: 1, TotalLines: 2, ExceptionsCaught: 1, MaxRecursionDepth: 1, ExecutionPath: []string{"<module>"},
			Lines: map[string]map[string]int64{"main.py": {"1": 1, "2": 1}}, Calls: map[string]int64{"<module>": 1},
			Edges: []Edge{{"<module>", "<module>", 3}}, Loops: []Loop{{"main.py", 1, 1}}, EventsTotal: 4, EventsKept: 4, CountsExact: true,
		},
		Ended: true, Complete: true, ExitKind: "exit",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Decode (-want +got):\n%s", diff)
	}
}

// TestDecodeCuts spoils one record at a time: what comes before it stays, and a note says so.
func TestDecodeCuts(t *testing.T) {
	t.Parallel()
	event := func(payload string) func(*[4][]byte) {
		return func(a *[4][]byte) { a[areaEvents] = area(`[0,1,1,1,1,1,0]`, payload, `[1,1,1,2,1,1,6]`) }
	}
	definition := func(payload string) func(*[4][]byte) {
		return func(a *[4][]byte) { a[areaDefs] = append(a[areaDefs], area(payload)[1:]...) }
	}
	value := func(v string) func(*[4][]byte) { return event(`[1,1,1,1,1,1,5,{"v":["x",` + v + `]}]`) }
	for name, spoil := range map[string]func(*[4][]byte){
		"another format":            func(a *[4][]byte) { a[areaEvents][0] = 2 },
		"length past the end":       func(a *[4][]byte) { a[areaEvents] = append(a[areaEvents], 9, 0, 0, 0, 'x') },
		"half a length":             func(a *[4][]byte) { a[areaEvents] = append(a[areaEvents], 9, 0) },
		"huge length":               func(a *[4][]byte) { a[areaEvents] = append(a[areaEvents], 255, 255, 255, 255) },
		"zeros":                     func(a *[4][]byte) { a[areaEvents] = append(a[areaEvents], make([]byte, 64)...) },
		"not JSON":                  event(`[1,1,1`),
		"not an array":              event(`{"a":1}`),
		"not ASCII":                 event(`[1,1,1,1,1,1,5,{"v":["é",1]}]`),
		"too few numbers":           event(`[1,1,1,1,1,1]`),
		"too many numbers":          event(`[1,1,1,1,1,1,1,{},1]`),
		"unknown kind":              event(`[8,1,1,1,1,1,5]`),
		"negative kind":             event(`[-1,1,1,1,1,1,5]`),
		"fraction":                  event(`[1.5,1,1,1,1,1,5]`),
		"null for a number":         event(`[null,1,1,1,1,1,5]`),
		"undefined function":        event(`[1,2,1,1,1,1,5]`),
		"frame 0":                   event(`[1,1,0,1,1,1,5]`),
		"line past the source":      event(`[2,1,1,3,1,1,5]`),
		"line the function has not": event(`[1,1,1,0,1,1,5]`),
		"unsafe time":               event(`[1,1,1,1,1,1,9007199254740992]`),
		"extra is not an object":    event(`[1,1,1,1,1,1,5,[]]`),
		"odd variables":             event(`[1,1,1,1,1,1,5,{"v":["x"]}]`),
		"name is a number":          event(`[1,1,1,1,1,1,5,{"v":[1,1]}]`),
		"reference is a text":       event(`[1,1,1,1,1,1,5,{"h":["1",1]}]`),
		"exception of one part":     event(`[1,1,1,1,1,1,5,{"x":["E"]}]`),
		"negative output":           event(`[1,1,1,1,1,1,5,{"o":[-1,0]}]`),
		"value is an object":        value(`{}`),
		"value without tag":         value(`[]`),
		"value with unknown tag":    value(`["NOPE",1]`),
		"tag is a number":           value(`[1]`),
		"reference to a text":       value(`["REF","1"]`),
		"unsafe integer":            value(`9007199254740993`),
		"infinite float":            value(`1e999`),
		"long text":                 value(`"` + strings.Repeat("x", maxString+1) + `"`),
		"deep value":                value(strings.Repeat(`["LIST",`, 20) + "1" + strings.Repeat("]", 20)),
		"wide value":                value(`["LIST"` + strings.Repeat(",1", 200) + `]`),
		"pair of three":             value(`["DICT",[1,2,3]]`),
		"elided in the middle":      value(`["DICT",["ELIDED",3],[1,{}]]`),
		"instance without class":    value(`["INSTANCE",1]`),
		"class without bases":       value(`["CLASS","C"]`),
		"unknown definition":        definition(`["what",1]`),
		"file out of order":         definition(`["file",3,"x.py"]`),
		"code of unknown file":      definition(`["code",2,2,1,"f","function",[],19,[]]`),
		"code with used counter":    definition(`["code",2,1,1,"f","function",[],18,[]]`),
		"code past the counters":    definition(`["code",2,1,1,"f","function",[],19,[1,2]]`),
		"code of unknown kind":      definition(`["code",2,1,1,"f","thing",[],19,[]]`),
		"lines backwards":           definition(`["code",2,1,1,"f","function",[],19,[2,1]]`),
		"very many lines":           definition(`["code",2,1,1,"f","function",[],19,[1,9999999]]`),
		"loop of unknown code":      definition(`["loop",2,1,[18]]`),
		"loop without counter":      definition(`["loop",1,1,[]]`),
		"loop with fixed counter":   definition(`["loop",1,1,[3]]`),
		"edge past the counters":    definition(`["edge",1,1,20]`),
		"exception of no kind":      definition(`["exception","odd",{}]`),
		"exception is null":         definition(`["exception","exception",null]`),
		"exception at line -1":      definition(`["exception","exception",{"line":-1}]`),
		"unknown end":               func(a *[4][]byte) { a[areaEnd] = area(`["end","odd"]`) },
		"two ends":                  func(a *[4][]byte) { a[areaEnd] = area(`["end","exit"]`, `["end","exit"]`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			areas, opts := sound()
			spoil(&areas)
			got := Decode(areas, opts)
			if got.Complete || len(got.Notes) != 1 {
				t.Errorf("got complete %v, notes %q, want incomplete and one note", got.Complete, got.Notes)
			}
			if got.Trace == nil || got.Summary == nil {
				t.Fatal("got no trace, want what could be read")
			}
			if n := len(got.Trace.Events); n != 0 && n != 1 && n != 4 {
				t.Errorf("got %d events, want those before the bad record", n)
			}
		})
	}
}

func TestDecodeMoreEventsThanBudget(t *testing.T) {
	t.Parallel()
	areas, opts := sound()
	opts.EventBudget = 2
	got := Decode(areas, opts)
	want := []Gap{{AfterSeq: 2, Skipped: -1, Cause: GapCorrupt}}
	if diff := cmp.Diff(want, got.Trace.Gaps); diff != "" || len(got.Trace.Events) != 2 {
		t.Errorf("got %d events, gaps (-want +got):\n%s", len(got.Trace.Events), diff)
	}
}

func TestDecodeNothing(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(Recording{}, Decode([4][]byte{}, Options{Mode: "full"})); diff != "" {
		t.Errorf("Decode of nothing (-want +got):\n%s", diff)
	}
}

// TestDecodeForeignSource takes the program's word for a file that is not the job's.
func TestDecodeForeignSource(t *testing.T) {
	t.Parallel()
	areas, opts := sound()
	opts.Files["main.py"] = "one line"
	got := Decode(areas, opts)
	if got.Trace.Files[0].Lines != 2 || len(got.Trace.Events) != 4 {
		t.Errorf("got %d lines and %d events, want 2 and 4", got.Trace.Files[0].Lines, len(got.Trace.Events))
	}
}

func TestUnescape(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"plain"`:              `"plain"`,
		`"\u00e9\u4e1c"`:       `"é东"`,
		`"\ud83c\udf75 tea"`:   `"🍵 tea"`,
		`"\ud83d"`:             `"` + "\ufffd" + `"`,
		`"\udf75\ud83c"`:       `"` + "\ufffd\ufffd" + `"`,
		`"\ud83cx\udf75"`:      `"` + "\ufffdx\ufffd" + `"`,
		`"\u0000\u0022\u005c"`: `"\u0000\u0022\u005c"`,
		`"\\u0041"`:            `"\\u0041"`,
		`"\n\"\\"`:             `"\n\"\\"`,
		`"\u12"`:               `"\u12"`,
		`\`:                    `\`,
	} {
		got, err := unescape([]byte(text))
		if err != nil || string(got) != want {
			t.Errorf("unescape(%s): got %s, %v, want %s", text, got, err, want)
		}
	}
}

// recorded loads what the real tracer wrote.
func recorded(t testing.TB) map[string]struct {
	Source string    `json:"source"`
	Areas  [4][]byte `json:"areas"`
} {
	t.Helper()
	all := map[string]struct {
		Source string    `json:"source"`
		Areas  [4][]byte `json:"areas"`
	}{}
	names, err := filepath.Glob("testdata/recordings/*.areas.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		one := all[name]
		if err := json.Unmarshal(data, &one); err != nil {
			t.Fatal(err)
		}
		all[name] = one
	}
	return all
}

// TestDecodeRecorded decodes real recordings: nothing is cut, and the trace
// survives a round trip through JSON.
func TestDecodeRecorded(t *testing.T) {
	t.Parallel()
	for name, r := range recorded(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			got := Decode(r.Areas, Options{Entrypoint: "main.py", Files: map[string]string{"main.py": r.Source}, Mode: "full", EventBudget: 10_000})
			if !got.Complete || len(got.Notes) > 0 {
				t.Errorf("got complete %v, notes %q, want complete without notes", got.Complete, got.Notes)
			}
			data, err := json.Marshal(got.Trace)
			if err != nil {
				t.Fatal(err)
			}
			var back Trace
			if err := json.Unmarshal(data, &back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got.Trace, &back); diff != "" {
				t.Errorf("round trip (-before +after):\n%s", diff)
			}
		})
	}
}

// TestDecodeRandomBytes writes random bytes over each area of real recordings.
func TestDecodeRandomBytes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, r := range recorded(t) {
		for range 200 {
			areas := r.Areas
			which := random.IntN(len(areas))
			spoilt := append([]byte{}, areas[which]...)
			for range 1 + random.IntN(20) {
				if len(spoilt) > 0 {
					spoilt[random.IntN(len(spoilt))] = byte(random.Uint32())
				}
			}
			areas[which] = spoilt
			checkSane(t, areas, r.Source)
		}
	}
}

// checkSane decodes and checks what holds of every outcome.
func checkSane(t *testing.T, areas [4][]byte, source string) {
	t.Helper()
	got := Decode(areas, Options{Entrypoint: "main.py", Files: map[string]string{"main.py": source}, Mode: "full", EventBudget: 10_000})
	if got.Complete && !got.Ended {
		t.Error("complete without an end")
	}
	if got.Trace == nil {
		return
	}
	names := got.Trace.Names()
	for i, e := range got.Trace.Events {
		if e.Seq != int64(i+1) || names.Function(e.Func).Name == "?" {
			t.Fatalf("event %d is not in order or has no function: %+v", i, e)
		}
	}
	if _, err := json.Marshal(got); err != nil {
		t.Fatalf("the outcome is not JSON: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, r := range recorded(f) {
		f.Add(r.Areas[0], r.Areas[1], r.Areas[2], r.Areas[3])
	}
	areas, _ := sound()
	f.Add(areas[0], areas[1], areas[2], areas[3])
	f.Fuzz(func(t *testing.T, events, defs, counters, end []byte) {
		checkSane(t, [4][]byte{events, defs, counters, end}, "x = 1\n")
	})
}
