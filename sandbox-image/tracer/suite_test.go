package tracer_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/sandbox/docker"
	"github.com/execra/tracefleet/internal/trace"
)

// suiteImage is the sandbox image with CPython's own tests in it.
const suiteImage = "tracefleet/sandbox-test:suite"

// suiteLimits leave the tests the room they are written for, on a busy machine too.
func suiteLimits() job.Limits {
	l := job.MaxLimits()
	l.MemoryBytes, l.OutputBytes, l.TraceBytes = 1<<30, 4_000_000, 16<<20
	return l
}

// suiteMain runs the tests of the modules that are its arguments.
const suiteMain = `import sys, unittest
failed = False
for name in sys.argv[1:]:
    failed |= not unittest.main(name, argv=["main.py", "-v"], exit=False).result.wasSuccessful()
sys.exit(failed)
`

// suiteJobs are the modules of CPython's tests that are run, by job.
func suiteJobs(t *testing.T) [][]string {
	t.Helper()
	text, err := os.ReadFile("testdata/suite.txt")
	if err != nil {
		t.Fatal(err)
	}
	var jobs [][]string
	for line := range strings.Lines(string(text)) {
		if names := strings.Fields(line); !strings.HasPrefix(line, "#") && len(names) > 0 {
			jobs = append(jobs, names)
		}
	}
	return jobs
}

// suiteSources reads the modules' sources out of the image.
func suiteSources(t *testing.T, names []string) map[string]string {
	t.Helper()
	const read = `import json, sys; print(json.dumps({n: open(f"/usr/lib/python3.13/test/{n}.py").read() for n in sys.argv[1:]}))`
	args := append([]string{"run", "--rm", "--label", "tracefleet.test=tracer", "--network", "none", "--entrypoint", "/usr/bin/python3", suiteImage, "-c", read}, names...)
	out, err := exec.CommandContext(t.Context(), "docker", args...).Output()
	if err != nil {
		t.Fatalf("read the tests in %s: %v", suiteImage, err)
	}
	sources := map[string]string{}
	if err := json.Unmarshal(out, &sources); err != nil {
		t.Fatal(err)
	}
	return sources
}

// TestCPythonsOwn runs modules of CPython's own tests as jobs in real sandboxes,
// untraced and traced in full: each test must come out the same.
func TestCPythonsOwn(t *testing.T) {
	t.Parallel()
	if out, err := exec.CommandContext(t.Context(), "../../deploy/setup/testsuite.sh").CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", suiteImage, err, out)
	}
	reread(t)
	jobs := suiteJobs(t)
	if n := len(slices.Concat(jobs...)); n < 40 {
		t.Errorf("got %d modules, want 40 at least", n)
	}
	sources := suiteSources(t, slices.Concat(jobs...))
	cfg := docker.Config{Image: suiteImage, Fleet: "test-suite-" + rand.Text(), Worker: "test-worker"}
	engine, err := docker.Open(t.Context(), cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	turns := make(chan struct{}, runtime.NumCPU()) // as many at once as there are processors
	for _, names := range jobs {
		t.Run(names[0], func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			files := map[string]string{"main.py": suiteMain}
			for _, name := range names {
				files[name+".py"] = sources[name]
			}
			j := job.Job{Files: files, Args: names, Limits: suiteLimits()}
			plain, _ := runTests(t, engine, j, job.TraceOff)
			traced, rec := runTests(t, engine, j, job.TraceFull)
			if diff := cmp.Diff(plain, traced); diff != "" {
				t.Errorf("tracing changed the tests (-plain +traced):\n%s", diff)
			}
			if plain["exit"] != "0" || len(plain) < 2*len(names) {
				t.Errorf("got %v untraced, want passing tests", plain)
			}
			for _, name := range names {
				if !rec.Complete || rec.Summary == nil || len(rec.Summary.Lines[name+".py"]) == 0 {
					t.Errorf("got complete %v, notes %q, want a whole recording with lines of %s", rec.Complete, rec.Notes, name)
				}
			}
		})
	}
}

// runTests runs a job in a sandbox. It returns what the tests say, and what was recorded.
func runTests(t *testing.T, engine *docker.Engine, j job.Job, mode job.TraceMode) (map[string]string, trace.Recording) {
	t.Helper()
	j = j.Normalize()
	j.Trace.Mode = mode
	s, err := engine.Launch(t.Context(), j.Limits)
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Run(t.Context(), j)
	if closed := s.Close(); err != nil || closed != nil {
		t.Fatalf("run: %v, close: %v", err, closed)
	}
	return said(t, o), trace.Decode(o.Memory, trace.Options{
		Entrypoint: j.Entrypoint, Files: j.Files, Mode: string(mode), EventBudget: j.Limits.TraceEvents,
	})
}

// The verdict of a test and the sum of all, as unittest prints them with -v.
var (
	verdictLine = regexp.MustCompile(`(?m)^(test\w* \([\w.<>]+\))(?:\n.*)?? \.\.\. (?:.*\n)*?.*?\b(ok|FAIL|ERROR|skipped|expected failure|unexpected success)\b`)
	sumLine     = regexp.MustCompile(`(?m)^(Ran \d+ tests?|OK.*|FAILED.*)`)
)

// said is the verdict of each test, the sum, and how the run ended.
func said(t *testing.T, o sandbox.Outcome) map[string]string {
	t.Helper()
	if o.End == nil || o.Invalid != "" {
		t.Fatalf("got no report of the run: %s", o.Invalid)
	}
	all := map[string]string{"exit": "0"}
	if end := *o.End; !end.Exited || end.ExitCode != 0 {
		all["exit"] = string(o.Stderr.Data[max(0, len(o.Stderr.Data)-2000):])
	}
	for _, m := range verdictLine.FindAllStringSubmatch(string(o.Stderr.Data), -1) {
		all[m[1]] = m[2]
	}
	for i, m := range sumLine.FindAllString(string(o.Stderr.Data), -1) {
		all[fmt.Sprint(i)] = m
	}
	return all
}
