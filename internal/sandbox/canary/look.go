package canary

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/wire"
)

//go:embed program.py
var program string

// FailedError says which checks a sandbox did not pass. It matches
// sandbox.ErrRefused.
type FailedError struct {
	// Failures has one sentence for each check.
	Failures []string
}

// Error names every failure.
func (e *FailedError) Error() string {
	return "the sandbox does not hold what it promises: " + strings.Join(e.Failures, "; ")
}

// Unwrap makes the error match sandbox.ErrRefused.
func (e *FailedError) Unwrap() error { return sandbox.ErrRefused }

// limits are those of the canary's own job.
func limits() job.Limits {
	l := job.DefaultLimits()
	l.OutputBytes, l.OpenFiles, l.FileBytes, l.WallMS, l.CPUMS = 64<<10, 40, 1<<20, 10_000, 10_000
	return l
}

// Look launches a sandbox and runs the canary in it. It returns a *FailedError
// when the sandbox does not hold what it promises, and another error when that
// could not be found out.
func Look(ctx context.Context, launcher sandbox.Launcher) (err error) {
	l := limits()
	box, err := launcher.Launch(ctx, l)
	if err != nil {
		return fmt.Errorf("look into a sandbox: %w", err)
	}
	defer func() {
		if closeErr := box.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("look into a sandbox: %w", closeErr))
		}
	}()
	out, err := box.Run(ctx, job.Job{
		Language: job.LanguagePython, Entrypoint: "main.py", Files: map[string]string{"main.py": program},
		Args: []string{}, Limits: l, Trace: job.TraceOptions{Mode: job.TraceOff, Include: []string{"."}},
	})
	if err != nil {
		return fmt.Errorf("look into a sandbox: %w", err)
	}
	if out.Interrupted {
		return fmt.Errorf("look into a sandbox: %w", context.Cause(ctx))
	}
	if failures := judge(l, out); len(failures) > 0 {
		return &FailedError{Failures: failures}
	}
	return nil
}

// findings is what the canary reports.
type findings struct {
	GVisor       bool              `json:"gvisor"`
	Status       map[string]string `json:"status"`
	Cgroup       map[string]string `json:"cgroup"`
	Rlimits      map[string]int64  `json:"rlimits"`
	Writable     []string          `json:"writable"`
	RootReadOnly bool              `json:"root_read_only"`
	Executable   bool              `json:"executable"`
	Calls        map[string]string `json:"calls"`
	Families     map[string]string `json:"families"`
	Reached      []string          `json:"reached"`
	Processes    []int             `json:"processes"`
	PID1Open     bool              `json:"pid1_open"`
}

// judge names everything that is not as it must be. It is pure.
func judge(l job.Limits, out sandbox.Outcome) []string {
	var failures []string
	fail := func(format string, args ...any) { failures = append(failures, fmt.Sprintf(format, args...)) }

	if out.End == nil || out.End.Killed != wire.KilledStdout || out.DeadlineHit {
		fail("a flood of output was not cut (end %+v, deadline hit %t)", out.End, out.DeadlineHit)
	}
	if int64(len(out.Stdout.Data)) > l.OutputBytes {
		fail("%d bytes of output were kept of at most %d", len(out.Stdout.Data), l.OutputBytes)
	}
	var f findings
	if err := json.Unmarshal(out.Stderr.Data, &f); err != nil {
		fail("the canary did not report: %v: %.300q", err, out.Stderr.Data)
		return failures
	}
	failures = append(failures, f.privileges()...)
	failures = append(failures, f.limits(l)...)
	failures = append(failures, f.places()...)
	return append(failures, f.surface()...)
}

// privileges looks at what the program may do as itself.
func (f findings) privileges() (failures []string) {
	want := map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "Groups": ""}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		want[set] = strings.Repeat("0", 16)
	}
	for _, name := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Groups"} {
		got := f.Status[name]
		switch {
		case got == want[name], name == "Groups" && got == "64000":
		case f.GVisor && (got == "" || name == "Seccomp"):
			// It shows fewer lines, and filters only where it is registered with
			// --oci-seccomp: what is not refused there reaches its own kernel.
		default:
			failures = append(failures, fmt.Sprintf("%s is %q, want %q", name, got, want[name]))
		}
	}
	for _, name := range []string{"Uid", "Gid"} {
		if got := strings.Fields(f.Status[name]); len(got) == 0 || slices.ContainsFunc(got, func(id string) bool { return id != "64000" }) {
			failures = append(failures, fmt.Sprintf("%s is %q, want 64000", name, f.Status[name]))
		}
	}
	return failures
}

// limits looks whether the limits that were asked for are in force.
func (f findings) limits(l job.Limits) (failures []string) {
	want := map[string]int64{"core": 0, "nofile": l.OpenFiles, "fsize": l.FileBytes}
	if f.GVisor {
		// Its cgroups are its own; the host's are read back from the engine.
		want["nproc"] = wire.SupervisorTasks + l.Processes
	} else {
		for name, most := range map[string]int64{"memory": l.MemoryBytes, "pids": wire.SupervisorTasks + l.Processes, "cpu": math.MaxInt64} {
			got, err := strconv.ParseInt(first(f.Cgroup[name]), 10, 64)
			if err != nil || got < 1 || got > most {
				failures = append(failures, fmt.Sprintf("the cgroup's limit on %s is %q, want at most %d", name, f.Cgroup[name], most))
			}
		}
	}
	for name, value := range want {
		if got, found := f.Rlimits[name]; !found || got != value {
			failures = append(failures, fmt.Sprintf("the limit %s is %d, want %d", name, got, value))
		}
	}
	slices.Sort(failures)
	return failures
}

func first(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}

// places looks at where the program can write.
func (f findings) places() (failures []string) {
	if want := []string{"/job", "/tmp", "/dev/shm"}; !slices.Equal(f.Writable, want) {
		failures = append(failures, fmt.Sprintf("the writable places are %v, want %v", f.Writable, want))
	}
	if !f.RootReadOnly {
		failures = append(failures, "the root is not read-only")
	}
	if f.Executable {
		failures = append(failures, "a file in /tmp could be executed")
	}
	return failures
}

// surface looks at what of the kernel and the world can be reached.
func (f findings) surface() (failures []string) {
	refused := []string{"EPERM", "ENOSYS", "EACCES"}
	if len(f.Calls) == 0 || len(f.Families) == 0 {
		failures = append(failures, "no system call was tried")
	}
	// Without a filter of its own gVisor's kernel answers, and the host's stays out of reach.
	filtered := !f.GVisor || f.Status["Seccomp"] == "2"
	for _, kind := range []struct {
		what string
		got  map[string]string
	}{{"the system call", f.Calls}, {"a socket of the family", f.Families}} {
		for name, outcome := range kind.got {
			if filtered && !slices.Contains(refused, outcome) {
				failures = append(failures, fmt.Sprintf("%s %s was not refused (%s)", kind.what, name, outcome))
			}
		}
	}
	slices.Sort(failures)
	if len(f.Reached) > 0 {
		failures = append(failures, fmt.Sprintf("there is a way to %v", f.Reached))
	}
	if !slices.Equal(f.Processes, []int{1}) {
		failures = append(failures, fmt.Sprintf("processes besides PID 1 are seen: %v", f.Processes))
	}
	if f.PID1Open {
		failures = append(failures, "PID 1 can be looked into")
	}
	return failures
}
