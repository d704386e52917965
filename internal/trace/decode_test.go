package trace

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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

// happened makes an area of events.
func happened(records ...[]byte) []byte {
	return append([]byte{binaryFormat}, bytes.Join(records, nil)...)
}

// record makes a whole record of an event in frame 1 of function 1.
func record(kind, has byte, line, time uint32, body ...byte) []byte {
	return placed(kind, has, 1, 1, 1, line, 1, time, body...)
}

func placed(kind, has byte, thread uint16, function, frame, line, depth, time uint32, body ...byte) []byte {
	out := binary.LittleEndian.AppendUint16([]byte{kind, has}, thread)
	for _, n := range []uint32{function, frame, line, depth, time} {
		out = binary.LittleEndian.AppendUint32(out, n)
	}
	return append(out, body...)
}

// short makes a record of an event in the frame of the one before it.
func short(kind, has byte, line uint32, passed uint16, body ...byte) []byte {
	out := binary.LittleEndian.AppendUint16([]byte{kind | shortHead, has}, passed)
	return append(binary.LittleEndian.AppendUint32(out, line), body...)
}

// asWord is a string as records hold it.
func asWord(s string) []byte { return append([]byte{byte(len(s))}, s...) }

// ring makes the area of the last events: segments with the number of their first event.
func ring(segments map[uint64][]byte) []byte {
	const size = 512
	out := binary.LittleEndian.AppendUint32(nil, binaryFormat)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(segments)))
	out = binary.LittleEndian.AppendUint64(out, size)
	for first, records := range segments {
		out = binary.LittleEndian.AppendUint64(out, first)
		out = binary.LittleEndian.AppendUint64(out, uint64(len(records)))
		out = append(out, records...)
		out = append(out, make([]byte, size-segmentHead-len(records))...)
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
func sound() ([areaCount][]byte, Options) {
	return [areaCount][]byte{
		happened(record(0, hasLooked, 1, 0),
			short(1, hasLooked|hasVariables|hasObjects, 1, 5, slices.Concat([]byte{2, byName}, asWord("x"), []byte{tagInt, 2, byName}, asWord("y"),
				[]byte{tagRef, 1, 1, 1, tagList, 2, tagInt, 2, tagInt, 4, 0})...),
			record(1, hasLooked|hasError|hasOutput, 2, 6, slices.Concat(asWord("KeyError"), asWord("k"), []byte{3, 4})...),
			short(2, hasLooked|hasValue, 2, 1, tagNull)),
		area(`["producer","c/1","3.13.5"]`, `["file",1,"main.py"]`, `["code",1,1,1,"<module>","module",[],16,[1,2],["z"]]`,
			`["loop",1,1,[18]]`, `["edge",1,1,19]`),
		counted(20, map[int]uint64{counterMaxDepth: 1, counterRaised: 1, counterOther: 1, 16: 1, 17: 1, 18: 1, 19: 3}),
		area(`["end","exit"]`),
		nil,
		notesArea([6]uint64{1, 2, 3, 4, 5, 6}, noteOf(noteException, fateOpen, 1, "KeyError", "k")),
	}, Options{Entrypoint: "main.py", Files: map[string]string{"main.py": "x = 1\ny = 2\n"}, Mode: "full", EventBudget: 100}
}

func TestDecodeSound(t *testing.T) {
	t.Parallel()
	areas, opts := sound()
	got := Decode(areas, opts)
	want := Recording{
		Trace: &Trace{
			Schema: Schema, Producer: Producer{Tracer: "c/1", Python: "3.13.5", Trust: "in-process"},
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
			Exceptions:       []Raised{{Number: 1, Type: "KeyError", Message: "k", File: "main.py", Line: 2, Function: "<module>", Thread: 1, Caught: pointer(true), Seq: 3}},
			ThreadExceptions: []ThreadException{}, ThreadExceptionsTotal: 4, Warnings: 5, Unraisable: 6,
			EffectsTotal: EffectsTotal{File: 1, Socket: 2, Process: 3},
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
	event := func(bad ...byte) func(*[areaCount][]byte) {
		return func(a *[areaCount][]byte) { a[areaEvents] = happened(record(0, 0, 1, 0), bad, record(1, 0, 2, 6)) }
	}
	definition := func(payload string) func(*[areaCount][]byte) {
		return func(a *[areaCount][]byte) { a[areaDefs] = append(a[areaDefs], area(payload)[1:]...) }
	}
	value := func(v ...byte) func(*[areaCount][]byte) { return event(record(2, hasValue, 1, 5, v...)...) }
	content := func(c ...byte) func(*[areaCount][]byte) {
		return event(record(2, hasObjects, 1, 5, append([]byte{1, 1}, c...)...)...)
	}
	for name, spoil := range map[string]func(*[areaCount][]byte){
		"another format":            func(a *[areaCount][]byte) { a[areaEvents][0] = 1 },
		"half a record":             func(a *[areaCount][]byte) { a[areaEvents] = append(a[areaEvents], record(1, 0, 1, 9)[:20]...) },
		"zeros":                     func(a *[areaCount][]byte) { a[areaEvents] = append(a[areaEvents], make([]byte, 64)...) },
		"short record first":        func(a *[areaCount][]byte) { a[areaEvents] = happened(short(1, 0, 1, 5)) },
		"unknown kind":              event(record(16, 0, 1, 5)...),
		"undefined function":        event(placed(1, 0, 1, 2, 1, 1, 1, 5)...),
		"function 0":                event(placed(1, 0, 1, 0, 1, 1, 1, 5)...),
		"frame 0":                   event(placed(1, 0, 1, 1, 0, 1, 1, 5)...),
		"thread 0":                  event(placed(1, 0, 0, 1, 1, 1, 1, 5)...),
		"huge depth":                event(placed(1, 0, 1, 1, 1, 1, 1<<31, 5)...),
		"line past the source":      event(record(2, 0, 3, 5)...),
		"line the function has not": event(record(1, 0, 0, 5)...),
		"variable without a name":   event(record(1, hasVariables, 1, 5, 1, 1, tagNull)...),
		"more variables than there": event(record(1, hasVariables, 1, 5, 9, 0, tagNull)...),
		"object 0":                  event(record(1, hasObjects, 1, 5, 1, 0, tagList, 0, 0)...),
		"endless number":            event(record(2, hasValue, 1, 5, append([]byte{tagRef}, bytes.Repeat([]byte{255}, 20)...)...)...),
		"text past the end":         event(record(1, hasError, 1, 5, 200, 3)...),
		"value with unknown tag":    value(99),
		"content for a value":       value(tagList, 0, 0),
		"long text":                 value(append([]byte{tagStr, 0x81, 0x10}, make([]byte, 3000)...)...),
		"unsafe reference":          value(tagRef, 0xff, 0xff, 0xff, 0xff, 0x7f),
		"integer of many bytes":     value(append([]byte{tagBig, 0, 80}, make([]byte, 80)...)...),
		"value for a content":       content(tagInt, 2),
		"list of many":              content(append([]byte{tagList, 99}, bytes.Repeat([]byte{tagNull}, 99)...)...),
		"instance of an odd base":   content(slices.Concat([]byte{tagInstance}, asWord("C"), []byte{7, 0, 0})...),
		"class of many bases":       content(slices.Concat([]byte{tagClass}, asWord("C"), []byte{200})...),
		"range of one":              content(tagRange, 1, tagInt, 2, 0),
		"raw past the end":          content(slices.Concat([]byte{tagRaw}, asWord("C"), []byte{rawDecimal, 200})...),
		"ring without a head":       func(a *[areaCount][]byte) { a[areaRing] = []byte{1, 2, 3} },
		"ring of another format":    func(a *[areaCount][]byte) { a[areaRing] = make([]byte, 64) },
		"ring of too many segments": func(a *[areaCount][]byte) { a[areaRing] = ring(nil); a[areaRing][4] = 9 },
		"ring before the first":     func(a *[areaCount][]byte) { a[areaRing] = ring(map[uint64][]byte{2: record(1, 0, 1, 5)}) },
		"ring with a bad record":    func(a *[areaCount][]byte) { a[areaRing] = ring(map[uint64][]byte{9: record(16, 0, 1, 5)}) },
		"ring with a short first":   func(a *[areaCount][]byte) { a[areaRing] = ring(map[uint64][]byte{9: short(1, 0, 1, 5)}) },
		"unknown definition":        definition(`["what",1]`),
		"file out of order":         definition(`["file",3,"x.py"]`),
		"code of unknown file":      definition(`["code",2,2,1,"f","function",[],19,[],[]]`),
		"code with used counter":    definition(`["code",2,1,1,"f","function",[],18,[],[]]`),
		"code past the counters":    definition(`["code",2,1,1,"f","function",[],19,[1,2],[]]`),
		"code of unknown kind":      definition(`["code",2,1,1,"f","thing",[],19,[],[]]`),
		"lines backwards":           definition(`["code",2,1,1,"f","function",[],19,[2,1],[]]`),
		"very many lines":           definition(`["code",2,1,1,"f","function",[],19,[1,9999999],[]]`),
		"loop of unknown code":      definition(`["loop",2,1,[18]]`),
		"loop without counter":      definition(`["loop",1,1,[]]`),
		"loop with fixed counter":   definition(`["loop",1,1,[3]]`),
		"edge past the counters":    definition(`["edge",1,1,20]`),
		"exception of no kind":      definition(`["exception","odd",{}]`),
		"exception is null":         definition(`["exception","exception",null]`),
		"exception at line -1":      definition(`["exception","exception",{"line":-1}]`),
		"notes without a head":      func(a *[areaCount][]byte) { a[areaNotes] = []byte{1, 0, 0, 0} },
		"notes of another format":   func(a *[areaCount][]byte) { a[areaNotes][0] = 2 },
		"notes of another size":     func(a *[areaCount][]byte) { a[areaNotes][4]++ },
		"note of no kind":           func(a *[areaCount][]byte) { a[areaNotes] = notesArea([6]uint64{}, noteOf(9, 0, 1, "x")) },
		"note of unknown code":      func(a *[areaCount][]byte) { a[areaNotes] = notesArea([6]uint64{}, noteOf(noteFile, 1, 9, "x")) },
		"note of no such action":    func(a *[areaCount][]byte) { a[areaNotes] = notesArea([6]uint64{}, noteOf(noteSocket, 1, 1, "x")) },
		"note of no such fate": func(a *[areaCount][]byte) {
			a[areaNotes] = notesArea([6]uint64{}, noteOf(noteException, 9, 1, "E", "m"))
		},
		"note with text past it": func(a *[areaCount][]byte) { a[areaNotes][len(a[areaNotes])-noteBytes+56] = 0xff },
		"unknown end":            func(a *[areaCount][]byte) { a[areaEnd] = area(`["end","odd"]`) },
		"two ends":               func(a *[areaCount][]byte) { a[areaEnd] = area(`["end","exit"]`, `["end","exit"]`) },
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
	if diff := cmp.Diff(Recording{}, Decode([areaCount][]byte{}, Options{Mode: "full"})); diff != "" {
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
	Source string            `json:"source"`
	Areas  [areaCount][]byte `json:"areas"`
} {
	t.Helper()
	all := map[string]struct {
		Source string            `json:"source"`
		Areas  [areaCount][]byte `json:"areas"`
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
func checkSane(t *testing.T, areas [areaCount][]byte, source string) {
	t.Helper()
	got := Decode(areas, Options{Entrypoint: "main.py", Files: map[string]string{"main.py": source}, Mode: "full", EventBudget: 10_000})
	if got.Complete && !got.Ended {
		t.Error("complete without an end")
	}
	if got.Trace == nil {
		return
	}
	names := got.Trace.Names()
	last := int64(0)
	for i, e := range got.Trace.Events {
		before := last
		last = e.Seq
		if e.Seq <= before || e.Seq > before+1 && len(got.Trace.Gaps) == 0 || names.Function(e.Func).Name == "?" {
			t.Fatalf("event %d is not in order or has no function: %+v", i, e)
		}
	}
	if _, err := json.Marshal(got); err != nil {
		t.Fatalf("the outcome is not JSON: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, r := range recorded(f) {
		f.Add(r.Areas[0], r.Areas[1], r.Areas[2], r.Areas[3], r.Areas[4], r.Areas[5])
	}
	areas, _ := sound()
	f.Add(areas[0], areas[1], areas[2], areas[3], ring(map[uint64][]byte{9: record(1, 0, 1, 5)}), areas[5])
	f.Add(areas[0], areas[1], areas[2], areas[3], []byte{}, notesArea([6]uint64{}, noteOf(noteFile, 1, 1, "x"), noteOf(noteThread, 0, 1, "E", "")))
	f.Fuzz(func(t *testing.T, events, defs, counters, end, ring, notes []byte) {
		checkSane(t, [areaCount][]byte{events, defs, counters, end, ring, notes}, "x = 1\n")
	})
}
