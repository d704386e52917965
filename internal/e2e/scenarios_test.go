package e2e_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/execra/tracefleet/internal/e2e/scenario"
	"github.com/execra/tracefleet/internal/job"
)

// The programs that people write: each result says what CPython does.
func TestCases(t *testing.T) {
	f := newFleet(t)
	f.start("w1", 2)
	f.start("w2", 2)
	runScenarios(t, load(t, "cases"), 4, func(t *testing.T, s scenario.Scenario) { runScenario(t, f, s) })
}

func load(t *testing.T, kind string) []scenario.Scenario {
	t.Helper()
	found, err := scenario.LoadAll("testdata/" + kind)
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		if found[i], err = found[i].Under(*runtime).Patient(); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// runScenarios runs each scenario as a subtest, a bounded number of them at once.
func runScenarios(t *testing.T, all []scenario.Scenario, atOnce int, run func(*testing.T, scenario.Scenario)) {
	places := make(chan struct{}, atOnce) // one token for each that runs
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			run(t, s)
		})
	}
}

// deadlineTries is how often a scenario is run that meets the worker's own deadline.
const deadlineTries = 5

// runScenario submits the scenario, compares the result, and returns it. A busy machine may keep the supervisor from ending
// a program in time; then the worker does, and there is no trace to compare. Such a run is repeated.
func runScenario(t *testing.T, f *fleet, s scenario.Scenario) []byte {
	t.Helper()
	for try := 1; ; try++ {
		id := s.Name + "-" + randomHex()
		document, err := s.Job(id)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.submit(t, document); got != id {
			t.Fatalf("submit: got id %q, want %q", got, id)
		}
		result := f.fetch(t, id)
		differences := s.Compare(result)
		if len(differences) > 0 && try < deadlineTries && unreported(result) {
			t.Logf("try %d: the worker's deadline came before the supervisor's report", try)
			continue
		}
		for _, difference := range differences {
			t.Errorf("%s: %s", s.Name, difference)
		}
		checkDocument(t, result)
		if t.Failed() {
			t.Logf("result: %s", withoutTrace(result))
		}
		return result
	}
}

// unreported tells whether a result is of a program that ran out of time and of which the supervisor reported nothing.
func unreported(document []byte) bool {
	var r job.Result
	return json.Unmarshal(document, &r) == nil && r.Status == job.StatusTimeLimit && r.Usage.MaxMemoryBytes == 0
}

// checkDocument wants what every result must hold, whatever the program did.
func checkDocument(t *testing.T, document []byte) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.DisallowUnknownFields()
	var r job.Result
	if err := decoder.Decode(&r); err != nil {
		t.Errorf("the result does not fit the schema: %v", err)
		return
	}
	if r.Schema != job.ResultSchema {
		t.Errorf("got schema %q, want %q", r.Schema, job.ResultSchema)
	}
	if n := len([]rune(r.Headline)); n == 0 || n > 200 {
		t.Errorf("got a headline of %d characters, want 1 to 200", n)
	}
	if r.Worker == "" || r.Attempt != 1 || r.StartedAt == nil || r.FinishedAt.Before(r.EnqueuedAt) {
		t.Errorf("got worker %q, attempt %d, times %v %v %v; want all set, in order, attempt 1", r.Worker, r.Attempt, r.EnqueuedAt, r.StartedAt, r.FinishedAt)
	}
	if r.Runtime.Version == "" || r.Runtime.Image == "" || r.Runtime.OCIRuntime == "" {
		t.Errorf("got runtime %+v, want all of it named", r.Runtime)
	}
}

// withoutTrace is a result without its longest part, to show to people.
func withoutTrace(document []byte) []byte {
	var fields map[string]any
	if err := json.Unmarshal(document, &fields); err != nil {
		return document
	}
	delete(fields, "trace")
	short, err := json.Marshal(fields)
	if err != nil {
		return document
	}
	return short[:min(len(short), 6000)]
}
