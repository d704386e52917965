package canary

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/sandbox/docker"
	"github.com/execra/tracefleet/internal/sandbox/fake"
	"github.com/execra/tracefleet/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A real sandbox passes.
func TestLook(t *testing.T) {
	t.Parallel()
	engine, err := docker.Open(t.Context(), docker.Config{Fleet: "test-canary", Worker: "test-" + strings.ToLower(t.Name())}, zap.NewNop())
	if err != nil {
		t.Fatalf("%v (run make setup)", err)
	}
	defer func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}()
	start := time.Now()
	if err := Look(t.Context(), engine); err != nil {
		t.Error(err)
	}
	t.Logf("a look took %v", time.Since(start))
}

// goodTasks is how many tasks a sandbox may have: the 64 processes of a job by default, and the supervisor's own.
const goodTasks = wire.SupervisorTasks + 64

// good is what the canary finds in a sandbox as it should be.
func good() findings {
	f := findings{
		Status: map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "Uid": "64000 64000 64000 64000", "Gid": "64000 64000 64000 64000", "Groups": ""},
		Cgroup: map[string]string{"memory": "268435456", "pids": strconv.Itoa(goodTasks), "cpu": "100000 100000"}, Rlimits: map[string]int64{"core": 0, "nofile": 40, "fsize": 1 << 20},
		Writable: []string{"/job", "/tmp", "/dev/shm"}, RootReadOnly: true, Calls: map[string]string{"bpf": "EPERM"}, Families: map[string]string{"vsock": "EPERM"},
		Processes: []int{1},
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		f.Status[set] = "0000000000000000"
	}
	return f
}

// outcome is that of a canary which found f and was then cut.
func outcome(t *testing.T, f findings) sandbox.Outcome {
	t.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.Outcome{
		End: &wire.EndInfo{Signal: 9, Killed: wire.KilledStdout}, Stderr: sandbox.Stream{Data: text, Total: int64(len(text))},
		Stdout: sandbox.Stream{Data: make([]byte, limits().OutputBytes), Total: 1 << 20},
	}
}

// Each thing that is wrong is said, and nothing else.
func TestJudge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(f *findings, out *sandbox.Outcome)
		want  string // in the one failure; empty for none
	}{
		"good":              {func(*findings, *sandbox.Outcome) {}, ""},
		"a capability":      {func(f *findings, _ *sandbox.Outcome) { f.Status["CapBnd"] = "00000000a80425fb" }, "CapBnd"},
		"new privileges":    {func(f *findings, _ *sandbox.Outcome) { f.Status["NoNewPrivs"] = "0" }, "NoNewPrivs"},
		"no filter":         {func(f *findings, _ *sandbox.Outcome) { f.Status["Seccomp"] = "0" }, "Seccomp"},
		"root":              {func(f *findings, _ *sandbox.Outcome) { f.Status["Uid"] = "0 0 0 0" }, "Uid"},
		"a group":           {func(f *findings, _ *sandbox.Outcome) { f.Status["Groups"] = "0" }, "Groups"},
		"unlimited memory":  {func(f *findings, _ *sandbox.Outcome) { f.Cgroup["memory"] = "max" }, "memory"},
		"too much memory":   {func(f *findings, _ *sandbox.Outcome) { f.Cgroup["memory"] = "9223372036854771712" }, "memory"},
		"no limit on tasks": {func(f *findings, _ *sandbox.Outcome) { f.Cgroup["pids"] = "" }, "pids"},
		"no limit on time":  {func(f *findings, _ *sandbox.Outcome) { f.Cgroup["cpu"] = "-1" }, "cpu"},
		"core dumps":        {func(f *findings, _ *sandbox.Outcome) { f.Rlimits["core"] = -1 }, "core"},
		"files":             {func(f *findings, _ *sandbox.Outcome) { f.Rlimits["nofile"] = 1 << 20 }, "nofile"},
		"a writable place":  {func(f *findings, _ *sandbox.Outcome) { f.Writable = append(f.Writable, "/dev/mqueue") }, "/dev/mqueue"},
		"a writable root":   {func(f *findings, _ *sandbox.Outcome) { f.RootReadOnly = false }, "read-only"},
		"programs in /tmp":  {func(f *findings, _ *sandbox.Outcome) { f.Executable = true }, "executed"},
		"a system call":     {func(f *findings, _ *sandbox.Outcome) { f.Calls["bpf"] = "EINVAL" }, "bpf"},
		"a socket":          {func(f *findings, _ *sandbox.Outcome) { f.Families["vsock"] = "allowed" }, "vsock"},
		"nothing tried":     {func(f *findings, _ *sandbox.Outcome) { f.Calls = nil }, "no system call"},
		"a network":         {func(f *findings, _ *sandbox.Outcome) { f.Reached = []string{"1.1.1.1"} }, "1.1.1.1"},
		"other processes":   {func(f *findings, _ *sandbox.Outcome) { f.Processes = []int{1, 2, 9} }, "processes"},
		"PID 1 open":        {func(f *findings, _ *sandbox.Outcome) { f.PID1Open = true }, "PID 1"},
		"the flood went on": {func(_ *findings, out *sandbox.Outcome) { out.End.Killed = wire.KilledWall }, "flood"},
		"no end":            {func(_ *findings, out *sandbox.Outcome) { out.End = nil }, "flood"},
		"all of it kept":    {func(_ *findings, out *sandbox.Outcome) { out.Stdout.Data = make([]byte, 1<<20) }, "kept"},
		"under gVisor":      {func(f *findings, _ *sandbox.Outcome) { f.GVisor, f.Cgroup, f.Rlimits["nproc"] = true, nil, goodTasks }, ""},
		"gVisor, no filter": {func(f *findings, _ *sandbox.Outcome) {
			f.GVisor, f.Status["Seccomp"], f.Calls["bpf"], f.Rlimits["nproc"] = true, "0", "EINVAL", goodTasks
		}, ""},
		"gVisor, no own bound": {func(f *findings, _ *sandbox.Outcome) { f.GVisor, f.Rlimits["nproc"] = true, -1 }, "nproc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := good()
			out := outcome(t, f)
			c.spoil(&f, &out)
			out.Stderr = outcome(t, f).Stderr
			got := judge(limits(), out)
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
				t.Errorf("got %q, want one with %q", got, c.want)
			}
		})
	}
	out := outcome(t, good())
	out.Stderr.Data = []byte("Traceback")
	if got := judge(limits(), out); len(got) != 1 || !strings.Contains(got[0], "did not report") {
		t.Errorf("got %q for no report, want that said", got)
	}
}

// guard makes a Guard over a fake whose canary finds what is given, one after the other.
func guard(t *testing.T, cfg Config, found ...findings) (*Guard, *fake.Launcher) {
	t.Helper()
	under := fake.New()
	for _, f := range found {
		under.Script(fake.Step{Outcome: outcome(t, f)})
	}
	return New(under, under, cfg, zap.NewNop()), under
}

func TestGuardLetsNothingThrough(t *testing.T) {
	t.Parallel()
	bad := good()
	bad.PID1Open = true
	g, _ := guard(t, Config{LookTimeout: 5 * time.Second}, good(), bad, good())
	launch := func() error {
		s, err := g.Launch(t.Context(), job.DefaultLimits())
		if err == nil {
			err = s.Close()
		}
		return err
	}
	if err := launch(); !errors.Is(err, errUnseen) {
		t.Errorf("before the first look: got error %v, want %v", err, errUnseen)
	}
	for n, wantGood := range []bool{true, false, true} {
		err := g.Look(t.Context())
		if (err == nil) != wantGood || !wantGood && !errors.Is(err, sandbox.ErrRefused) {
			t.Errorf("look %d: got error %v, want good %v", n, err, wantGood)
		}
		if err := launch(); (err == nil) != wantGood || !wantGood && !strings.Contains(err.Error(), "PID 1") {
			t.Errorf("launch after look %d: got error %v, want launched %v", n, err, wantGood)
		}
	}
}

// A look that could not be had is no verdict.
func TestGuardKeepsItsVerdict(t *testing.T) {
	t.Parallel()
	g, under := guard(t, Config{}, good())
	if err := g.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	under.FailLaunches(errors.New("engine away"))
	if err := g.Look(t.Context()); err == nil || errors.Is(err, sandbox.ErrRefused) {
		t.Errorf("got error %v, want one of the engine", err)
	}
	if err := g.Fault(); err != nil {
		t.Errorf("got fault %v, want the last look to count", err)
	}
}

// After a change nothing is launched until the next look is good; a bad look ends Run.
func TestGuardLooksAfterChanges(t *testing.T) {
	t.Parallel()
	bad := good()
	bad.RootReadOnly = false
	for name, c := range map[string]struct {
		then     findings
		launched bool
	}{"for the better": {good(), true}, "for the worse": {bad, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes, looking := make(chan struct{}), make(chan struct{})
			g, under := guard(t, Config{AwaitChange: func(ctx context.Context) error {
				select {
				case <-changes:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}}, good())
			if err := g.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			under.Script(fake.Step{Outcome: outcome(t, c.then), Release: looking})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- g.Run(ctx) }()
			changes <- struct{}{}
			for !errors.Is(g.Fault(), errUnseen) {
				runtime.Gosched()
			}
			launched := make(chan error, 1)
			go func() {
				s, err := g.Launch(ctx, job.DefaultLimits())
				if err == nil {
					err = s.Close()
				}
				launched <- err
			}()
			select {
			case err := <-launched:
				t.Errorf("launched before the look was over: %v", err)
			case looking <- struct{}{}:
				if err := <-launched; (err == nil) != c.launched || !c.launched && !errors.Is(err, sandbox.ErrRefused) {
					t.Errorf("got error %v, want launched %v", err, c.launched)
				}
			}
			if c.launched {
				stop()
			}
			if err := <-ended; (err == nil) != c.launched {
				t.Errorf("got %v from Run, want an error only when a look was bad", err)
			}
			stop()
		})
	}
}
