package tracer_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// elsewhere names scenarios that need the whole sandbox: its memory limit, its
// isolation, or the time they take.
var elsewhere = map[string]string{
	"cases_31_memory_growth":       "memory limit",
	"cases_33_contained_attempts":  "isolation",
	"cases_27_network_refused":     "isolation",
	"cases_08_output_flood":        "output limit",
	"cases_32_too_many_threads":    "process limit",
	"attacks_39_fake_frames":       "writes into the harness's own pipes",
	"attacks_44_exec_interpreter":  "prints its process id",
	"attacks_40_trace_memory":      "prints how many shared mappings it found",
	"attacks_42_detach_tracer":     "prints how many monitoring calls were accepted",
	"attacks_43_hunt_tracer":       "hollows out the functions that it finds",
	"attacks_45_close_descriptors": "closes the standard streams",
}

// endsUnflushed names scenarios in which output would be lost, or written twice, if it was not
// written line by line as in a sandbox.
var endsUnflushed = []string{"cases_72_kills_itself", "cases_79_child_processes"}

// tooDeep names scenarios that reach the recursion limit, where callbacks have no room for events.
var tooDeep = []string{"cases_10_endless_recursion", "cases_60_recursion_caught"}

// addresses are what differs from run to run in the text of an object.
var addresses = regexp.MustCompile(`at 0x[0-9a-f]+`)

func sameEnding(o outcome) string {
	plain, traced := *o.Plain, o.Traced
	for _, text := range []*[]byte{&plain.Stdout, &plain.Stderr, &traced.Stdout, &traced.Stderr} {
		*text = addresses.ReplaceAll(*text, []byte("at 0x?"))
	}
	show := func(e ending) map[string]any {
		return map[string]any{"returncode": e.Returncode, "stdout": string(e.Stdout), "stderr": string(e.Stderr)}
	}
	return cmp.Diff(show(plain), show(traced))
}

// inGroup says whether an attack is one about the tracer, its values or sources.
func inGroup(name string) bool {
	number := strings.Split(strings.TrimPrefix(name, "attacks_"), "_")[0]
	return slices.Contains([]string{"16", "17", "39", "40", "42", "43", "44", "45", "46", "47", "48", "49", "50", "51"}, number)
}

// concerns tells whether a key of want.json is about what the tracer records.
func concerns(key string) bool {
	for _, own := range []string{
		"exception", "lines", "calls", "total_calls", "max_recursion_depth", "exceptions_caught", "loops", "trace_has", "trace_not", "tracer",
	} {
		if key == own || strings.HasPrefix(key, own+".") || strings.HasPrefix(key, own+" ") {
			return true
		}
	}
	return false
}

// TestScenarios runs every scenario of the project plainly and traced. The two
// must look the same from outside, and the recording must say what want.json wants.
func TestScenarios(t *testing.T) {
	t.Parallel()
	all, err := scenarios()
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]program{}
	for name, s := range all {
		if elsewhere[name] == "" && (strings.HasPrefix(name, "cases_") || inGroup(name)) {
			p := s.program
			p.Unbuffered = slices.Contains(endsUnflushed, name)
			programs[name] = p
		}
	}
	outcomes := run(t, programs)
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, o := all[name], outcomes[name]
			if o.Plain != nil {
				if diff := sameEnding(o); diff != "" {
					t.Errorf("tracing changed the program (-plain +traced):\n%s", diff)
				}
			}
			rec := o.recording(s.program)
			document, err := json.Marshal(map[string]any{
				"exception": rec.Exception, "summary": rec.Summary, "trace": rec.Trace,
				"tracer": map[string]any{"complete": rec.Complete, "detached": rec.Detached},
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range s.Compare(document) {
				if concerns(d.Key) {
					t.Errorf("%s: got %s, want %s", d.Key, d.Got, d.Want)
				}
			}
			for _, note := range rec.Notes {
				if strings.Contains(note, "cut") || strings.Contains(note, "could not") && !slices.Contains(tooDeep, name) {
					t.Errorf("note: %s", note)
				}
			}
		})
	}
}
