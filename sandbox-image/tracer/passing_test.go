package tracer_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/trace"
)

// passedPrograms is how many generated programs TestPassing compares, unless the
// environment variable GENERATED says otherwise.
const passedPrograms = 12

// TestPassing compares, for every program at hand, what is recorded when lines are passed
// as soon as they can be with what is recorded when every LINE event comes. The
// two must say the same, event for event.
func TestPassing(t *testing.T) {
	t.Parallel()
	programs := map[string]program{}
	sources, err := filepath.Glob("testdata/p*/*.py")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		programs[strings.TrimSuffix(filepath.Base(source), ".py")] = script(string(text))
	}
	count := passedPrograms
	if more, err := strconv.Atoi(os.Getenv("GENERATED")); err == nil {
		count = more
	}
	for seed := range count {
		p := script("")
		p.Seed = seed + 1
		programs[fmt.Sprintf("seed%d", seed+1)] = p
	}
	jobs := map[string]program{}
	for name, p := range programs {
		for _, mode := range []string{"full", "lines"} {
			for _, events := range []int64{10_000, 40} {
				for way, after := range map[string]int64{"each": -1, "again": -1, "passed": 0, "later": 3} {
					p := p
					p.Mode, p.Events, p.Plain, p.PassAfter, p.Seconds = mode, events, false, &after, 60
					p.ExactMS, p.Environment = 600_000, map[string]string{"PYTHONHASHSEED": "0"}
					jobs[strings.Join([]string{name, mode, strconv.FormatInt(events, 10), way}, ".")] = p
				}
			}
		}
	}
	outcomes := run(t, jobs)
	for name, o := range outcomes {
		prefix, found := strings.CutSuffix(name, ".each")
		if !found {
			continue
		}
		p := jobs[name]
		for _, way := range []string{".passed", ".later"} {
			t.Run(prefix+way, func(t *testing.T) {
				t.Parallel()
				want, got := o.recording(p), outcomes[prefix+way].recording(p)
				again := outcomes[prefix+".again"].recording(p)
				from := max(tail(want, p.Events), tail(got, p.Events), tail(again, p.Events))
				wanted := told(t, want, p.Events, from)
				if wanted != told(t, again, p.Events, from) {
					t.Logf("the program does not do the same each time")
					return
				}
				if diff := cmp.Diff(wanted, told(t, got, p.Events, from)); diff != "" {
					t.Errorf("recording (-each line +passed):\n%s", diff)
				}
			})
		}
	}
}

// tail returns the number of the first event after the budget.
func tail(rec trace.Recording, budget int64) int64 {
	for _, e := range rec.Trace.Events {
		if e.Seq > budget {
			return e.Seq
		}
	}
	return budget + 1
}

// told is a recording as text, with what each event's frame shows at it, objects written out: which
// objects take the place of dead ones, and so their numbers, differs between runs.
// Of the events after the budget, those from a number on are taken, without values: where the ring
// starts, and which ones have values, the clock decides.
func told(t *testing.T, rec trace.Recording, budget, from int64) string {
	t.Helper()
	var events strings.Builder
	heap, frames := map[string]trace.Value{}, map[int]map[string]trace.Value{}
	for _, e := range rec.Trace.Events {
		if e.Seq > budget {
			if e.Seq < from {
				continue
			}
			e.Value, e.Out, e.Exception = nil, nil, nil
		} else {
			for _, entry := range e.Heap {
				heap[strconv.Itoa(entry.Ref)] = entry.Value
			}
			if frames[e.Frame] == nil {
				frames[e.Frame] = map[string]trace.Value{}
			}
			for _, v := range e.Vars {
				frames[e.Frame][v.Name] = v.Value
			}
		}
		vars := frames[e.Frame]
		e.Vars, e.Heap, e.Unseen, e.T = nil, nil, false, 0
		e.Value = expand(heap, e.Value, 2)
		events.Write(mustMarshal(t, e))
		for _, name := range slices.Sorted(maps.Keys(vars)) {
			fmt.Fprintf(&events, " %s=%s", name, expand(heap, vars[name], 2))
		}
		events.WriteByte('\n')
	}
	rec.Trace.Events = nil
	rec.Summary.EventsKept = 0
	lists := wordings.ReplaceAllString(string(document(t, rec)), `"message":`)
	return numbers.ReplaceAllString(lists+events.String(), "N")
}

// wordings are messages of the list of exceptions: which ones are worded the clock decides.
var wordings = regexp.MustCompile(`"message": .*`)

// numbers are what the system gives out: addresses and threads' numbers.
var numbers = regexp.MustCompile(`\d{13,}|("(_ident|_native_id)",\d+)`)

var reference = regexp.MustCompile(`\["REF",(\d+)\]`)

// expand puts the content of objects in the place of references, so many levels deep.
func expand(heap map[string]trace.Value, value trace.Value, levels int) trace.Value {
	return reference.ReplaceAllFunc(value, func(found []byte) []byte {
		if levels == 0 {
			return []byte(`"…"`)
		}
		return expand(heap, heap[string(reference.FindSubmatch(found)[1])], levels-1)
	})
}
