package tracer_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/execra/tracefleet/internal/trace"
)

// TestDelegation checks the depth of events against what functions themselves count, where exceptions are thrown
// through generators that delegate: the interpreter tells nothing of those in between.
func TestDelegation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/passing/delegation.py")
	if err != nil {
		t.Fatal(err)
	}
	p := script(string(text))
	p.Events = 100_000
	o := run(t, map[string]program{"delegation": p})["delegation"]
	rec := o.recording(p)
	if len(o.Traced.Stderr) > 0 || !rec.Complete {
		t.Fatalf("the program failed: %s", o.Traced.Stderr)
	}
	checked, deepest, wrong := 0, 0, 0
	for _, e := range rec.Trace.Events {
		for _, v := range e.Vars {
			if v.Name != "here" || e.Kind == trace.KindResume || e.Kind == trace.KindThrow {
				continue // what it says then is of another call
			}
			want, err := strconv.Atoi(string(v.Value))
			if err != nil {
				t.Fatalf("event %d: %s = %s, want a number", e.Seq, v.Name, v.Value)
			}
			checked++
			deepest = max(deepest, want)
			if e.Depth != want && wrong < 10 {
				wrong++
				t.Errorf("event %d, %s in line %d: got depth %d, want %d", e.Seq, e.Kind, e.Line, e.Depth, want)
			}
		}
	}
	if checked < 400 || deepest < 6 {
		t.Errorf("checked %d depths of at most %d, want 400 and more, of 6", checked, deepest)
	}
}
