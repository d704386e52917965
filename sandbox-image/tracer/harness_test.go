package tracer_test

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/execra/tracefleet/internal/e2e/scenario"
	"github.com/execra/tracefleet/internal/trace"
	"github.com/execra/tracefleet/internal/wire"
)

const (
	scenarioRoot  = "../../internal/e2e/testdata"
	containerSize = "512m"
)

// image is the sandbox image under test, with the tracer in it.
var image = cmp.Or(os.Getenv("IMAGE"), "tracefleet/sandbox:latest")

// program is what tests/drive.py runs, once plainly and once traced.
type program struct {
	Files      map[string]string `json:"files"`
	Entrypoint string            `json:"entrypoint"`
	Args       []string          `json:"args"`
	Stdin      string            `json:"stdin"`
	Mode       string            `json:"mode"`
	Values     bool              `json:"values"`
	Include    []string          `json:"include"`
	Events     int64             `json:"events"`
	TraceBytes int64             `json:"trace_bytes"`
	ExactMS    int64             `json:"exact_ms"`
	Seconds    float64           `json:"seconds"`
	Plain      bool              `json:"plain"`
	// Unbuffered makes the plain run write at once, where a traced one writes line by line.
	Unbuffered bool `json:"unbuffered"`
	// PassAfter is after how many hits a line may be passed; negative for never, nil for the tracer's own number.
	PassAfter *int64 `json:"pass_after,omitempty"`
	// BurstMS is the processor time between bursts once exact counting is over; 0 for the tracer's own.
	BurstMS int64 `json:"burst_ms,omitempty"`
	// CPUMS is the processor time at which the tracer takes the program to be killed, CPUS at which it is; 0 for the harness's own.
	CPUMS int64 `json:"cpu_ms,omitempty"`
	CPUS  int64 `json:"cpu_s,omitempty"`
	// Ignored and Blocked are signals that the traced interpreter finds so when it starts; 0 for none.
	Ignored int `json:"ignored,omitempty"`
	Blocked int `json:"blocked,omitempty"`
	// Environment is added to what a program finds.
	Environment map[string]string `json:"environment,omitempty"`
	// Seed makes the program one that tests/generate.py writes.
	Seed int `json:"seed,omitempty"`
}

// script is a program of one file with the usual settings.
func script(source string) program {
	return program{
		Files: map[string]string{"main.py": source}, Entrypoint: "main.py", Args: []string{}, Mode: "full", Values: true,
		Include: []string{"."}, Events: 10_000, TraceBytes: 4 << 20, ExactMS: 2500, Seconds: 120, Plain: true,
	}
}

// ending is how a run ended and what it wrote.
type ending struct {
	Returncode int    `json:"returncode"`
	Stdout     []byte `json:"stdout"`
	Stderr     []byte `json:"stderr"`
	// Farewell is whether a traced interpreter said that it ends with status 0.
	Farewell bool `json:"farewell"`
}

// outcome is what became of a program.
type outcome struct {
	Plain  *ending                `json:"plain"`
	Traced ending                 `json:"traced"`
	Areas  [wire.AreaCount][]byte `json:"areas"`
}

// recording decodes what the tracer wrote.
func (o outcome) recording(p program) trace.Recording {
	return trace.Decode(o.Areas, trace.Options{
		Entrypoint: p.Entrypoint, Files: p.Files, Mode: p.Mode, EventBudget: p.Events,
	})
}

// run runs programs in one throw-away container without network.
func run(t *testing.T, programs map[string]program) map[string]outcome {
	t.Helper()
	return runWith(t, nil, programs)
}

// runWith does it with further options for the container.
func runWith(t *testing.T, options []string, programs map[string]program) map[string]outcome {
	t.Helper()
	here, err := filepath.Abs("tests")
	if err != nil {
		t.Fatal(err)
	}
	reread(t)
	jobs, out := t.TempDir(), t.TempDir()
	args := []string{
		"run", "--rm", "--label", "tracefleet.test=tracer", "--network", "none", "--memory", containerSize, "--pids-limit", "100",
		"--tmpfs", "/job:mode=1777,size=32m", "--tmpfs", "/tmp:mode=1777,size=32m", "--entrypoint", "/usr/bin/python3",
		"-v", here + ":/tests:ro", "-v", jobs + ":/jobs:ro", "-v", out + ":/out",
	}
	args = append(append(args, options...), image, "/tests/drive.py", "/out")
	for name, p := range programs {
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(jobs, name+".json"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, "/jobs/"+name+".json")
	}
	for _, folder := range []string{jobs, out} {
		if err := os.Chmod(folder, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if said, err := exec.CommandContext(t.Context(), "docker", args...).CombinedOutput(); err != nil {
		t.Fatalf("run in %s (is the image there? run `make setup`): %v\n%s", image, err, said)
	}
	outcomes := map[string]outcome{}
	for name := range programs {
		data, err := os.ReadFile(filepath.Join(out, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var o outcome
		if err := json.Unmarshal(data, &o); err != nil {
			t.Fatal(err)
		}
		outcomes[name] = o
	}
	return outcomes
}

// reread reads the tracer, so that a change of it makes a cached test outcome stale.
func reread(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"*.py", "tests/*.py"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if _, err := os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// scenarios loads the project's scenarios as programs, once.
var scenarios = sync.OnceValues(func() (map[string]loaded, error) {
	all := map[string]loaded{}
	for _, folder := range []string{"cases", "attacks"} {
		found, err := scenario.LoadAll(filepath.Join(scenarioRoot, folder))
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			p, err := asProgram(s)
			if err != nil {
				return nil, err
			}
			all[folder+"_"+s.Name] = loaded{s, p}
		}
	}
	return all, nil
})

type loaded struct {
	scenario.Scenario
	program program
}

// asProgram turns a scenario's job into a program.
func asProgram(s scenario.Scenario) (program, error) {
	data, err := s.Job("x")
	if err != nil {
		return program{}, err
	}
	j := struct {
		Entrypoint string
		Args       []string
		Stdin      string
		Limits     struct {
			WallMS      int64 `json:"wall_ms"`
			CPUMS       int64 `json:"cpu_ms"`
			TraceEvents int64 `json:"trace_events"`
			OutputBytes int64 `json:"output_bytes"`
		}
		Trace struct{ Mode string }
	}{Args: []string{}}
	if err := json.Unmarshal(data, &j); err != nil {
		return program{}, err
	}
	p := script("")
	p.Files, p.Entrypoint, p.Args, p.Stdin = s.Files, j.Entrypoint, j.Args, j.Stdin
	if j.Trace.Mode != "" {
		p.Mode = j.Trace.Mode
	}
	if j.Limits.TraceEvents > 0 {
		p.Events = j.Limits.TraceEvents
	}
	if limit := max(j.Limits.WallMS, j.Limits.CPUMS); limit > 0 {
		p.Seconds, p.ExactMS, p.Plain = float64(limit)/1000, limit/4, false
	}
	if j.Limits.OutputBytes > 0 {
		p.Seconds, p.Plain = 10, false
	}
	return p, nil
}
