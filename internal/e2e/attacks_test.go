package e2e_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/execra/tracefleet/internal/e2e/scenario"
)

// The programs that try to get out: each is contained, its verdict is true,
// the next job on the same worker is clean, and nothing of a sandbox that is
// gone is left on the host.
func TestAttacks(t *testing.T) {
	f := newFleet(t)
	w := f.start("w1", 2)
	seen := watchContainers(t, f)
	clean, err := scenario.Load("testdata/cases/01_hello")
	if err != nil {
		t.Fatal(err)
	}
	if clean, err = clean.Patient(); err != nil {
		t.Fatal(err)
	}
	notes := newReport(t, f)
	// A group of its own, so that everything below comes after all of them.
	t.Run("each", func(t *testing.T) {
		runScenarios(t, load(t, "attacks"), 2, func(t *testing.T, s scenario.Scenario) {
			var got attackNote
			defer func() { notes.add(got, s, t.Failed()) }()
			got.read(runScenario(t, f, s))
			runScenario(t, f, clean)
			got.Residue = seen.residue(t)
			for _, trace := range got.Residue {
				t.Errorf("left on the host: %s", trace)
			}
		})
	})
	w.stop()
	f.wantNoContainers()
	for _, trace := range seen.residue(t) {
		t.Errorf("left on the host after the worker's end: %s", trace)
	}
}

// attackNote is one row of the report: what became of an attack.
type attackNote struct {
	Runtime string   `json:"runtime"`
	Attack  string   `json:"attack"`
	Wanted  []string `json:"wanted"`
	Got     string   `json:"got"`
	// OK, Breaches and Advisories count the attack's own probes.
	OK         int      `json:"ok"`
	Breaches   int      `json:"breaches"`
	Advisories int      `json:"advisories"`
	Residue    []string `json:"residue"`
	Contained  bool     `json:"contained"`
}

// read takes from a result what the report says of it.
func (n *attackNote) read(result []byte) {
	var r struct {
		Status string `json:"status"`
		Stdout string `json:"stdout"`
	}
	if json.Unmarshal(result, &r) != nil {
		return // compared, and reported, before
	}
	n.Got = r.Status
	for line := range strings.Lines(r.Stdout) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "PROBE" {
			continue
		}
		switch rest := words[2:]; {
		case slices.Contains(rest, "BREACH"):
			n.Breaches++
		case slices.Contains(rest, "ADVISORY"):
			n.Advisories++
		default:
			n.OK++
		}
	}
}

// report writes notes, one JSON document a line, to the file of the flag; it
// does nothing without one.
type report struct {
	t       *testing.T
	runtime string

	mu   sync.Mutex
	file *os.File
}

func newReport(t *testing.T, f *fleet) *report {
	t.Helper()
	r := &report{t: t, runtime: *runtime}
	if r.runtime == "" {
		r.runtime = "runc"
	}
	if *reportFile == "" {
		return r
	}
	file, err := os.Create(*reportFile)
	if err != nil {
		t.Fatal(err)
	}
	r.file = file
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	r.write(f.machine(r.runtime))
	return r
}

// add notes an attack that has ended.
func (r *report) add(n attackNote, s scenario.Scenario, failed bool) {
	n.Runtime, n.Attack, n.Wanted, n.Contained = r.runtime, s.Name, s.Want.Statuses(), !failed
	r.write(n)
}

func (r *report) write(note any) {
	if r.file == nil {
		return
	}
	line, err := json.Marshal(note)
	if err != nil {
		r.t.Error(err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		r.t.Error(err)
	}
}

// machineNote is the first line of a report: what it was made on.
type machineNote struct {
	Runtime        string `json:"runtime"`
	RuntimeVersion string `json:"runtime_version"`
	Engine         string `json:"engine"`
	Kernel         string `json:"kernel"`
	System         string `json:"system"`
	Cgroup         string `json:"cgroup"`
	Image          string `json:"image"`
}

// machine asks the engine what it is, and the runtime for its version.
func (f *fleet) machine(runtime string) machineNote {
	ctx, cancel := context.WithTimeout(f.t.Context(), readyWithin)
	defer cancel()
	var info struct {
		ServerVersion, KernelVersion, OperatingSystem, CgroupVersion string
		Runtimes                                                     map[string]struct {
			Path        string   `json:"path"`
			RuntimeArgs []string `json:"runtimeArgs"`
		}
	}
	if _, err := f.engine.get(ctx, "/info", &info); err != nil {
		f.t.Fatal(err)
	}
	n := machineNote{
		Runtime: runtime, Engine: info.ServerVersion, Kernel: info.KernelVersion, System: info.OperatingSystem,
		Cgroup: "v" + info.CgroupVersion, Image: *image, RuntimeVersion: "unknown",
	}
	// The engine's own path; on a remote engine it is not here, and stays unknown.
	if said, err := exec.CommandContext(ctx, info.Runtimes[runtime].Path, "--version").Output(); err == nil {
		first, _, _ := strings.Cut(string(said), "\n")
		n.RuntimeVersion = strings.TrimSpace(first)
		if args := info.Runtimes[runtime].RuntimeArgs; len(args) > 0 {
			n.RuntimeVersion += " " + strings.Join(args, " ")
		}
	}
	return n
}
