package docker

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/wire"
)

// runFake runs a job in a container in which do is the supervisor.
func runFake(t *testing.T, ctx context.Context, j job.Job, do func(c *fakeContainer, info wire.JobInfo) int) (sandbox.Outcome, error) {
	t.Helper()
	f := newFakeEngine(t)
	f.pid1 = supervised(do)
	return launchFake(t, f.open(nil)).Run(ctx, j)
}

func TestRunHandsOverTheWholeJob(t *testing.T) {
	t.Parallel()
	j := program("print()\n")
	j.Stdin, j.Args, j.Files["b.txt"] = "in", []string{"-x"}, "\x00\xff"
	j.Limits.WallMS = 1234
	var got wire.JobInfo
	out, err := runFake(t, context.Background(), j, func(c *fakeContainer, info wire.JobInfo) int {
		got = info
		c.send(frame(wire.End, endText))
		return 0
	})
	if err != nil {
		t.Fatal(err)
	}
	want := wire.JobInfo{
		Entrypoint: "main.py", Files: map[string][]byte{"main.py": []byte("print()\n"), "b.txt": {0, 255}},
		Stdin: []byte("in"), Args: []string{"-x"}, WallMS: 1234, CPUMS: 10_000, MemoryBytes: 256 << 20,
		OutputBytes: 1_000_000, Processes: 64, OpenFiles: 32, FileBytes: 16 << 20, TraceEvents: 10_000, TraceBytes: 4 << 20,
		TraceMode: "full", TraceValues: true, Include: []string{"."},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if out.Runtime.Version != "3.13.0" || !strings.HasPrefix(out.Runtime.Image, "sha256:") || out.Runtime.Engine != "docker" || out.Runtime.OCIRuntime != "runc" {
		t.Errorf("got runtime %+v", out.Runtime)
	}
}

// TestHostileFrames has the supervisor say what none would say. None of it is
// an error, and none of it is believed.
func TestHostileFrames(t *testing.T) {
	t.Parallel()
	area := func(n byte, size int) string { return string([]byte{n}) + strings.Repeat("e", size) }
	out := frame(wire.Stdout, "kept")
	for _, c := range []struct {
		name  string
		bytes []byte
		want  string // in Outcome.Invalid
	}{
		{"unknown type", joined(out, []byte("?\x00\x00\x00\x01x")), "unknown frame type"},
		{"length of 4 GiB", joined(out, []byte("O\xff\xff\xff\xff")), "too large"},
		{"one byte too long", joined(out, []byte("O\x00\x01\x00\x01")), "too large"},
		{"READY again", joined(out, frame(wire.Ready, readyText)), "out of place"},
		{"JOB back", joined(out, frame(wire.Job, "{}")), "out of place"},
		{"empty TRACE", joined(out, frame(wire.Trace, "")), "empty TRACE"},
		{"TRACE of no area", joined(out, frame(wire.Trace, area(wire.AreaCount, 1))), "area 6"},
		{"TRACE of area 255", joined(out, frame(wire.Trace, area(255, 1))), "area 255"},
		{"TRACE over its area", joined(out, bytes.Repeat(frame(wire.Trace, area(wire.AreaEnd, 60_000)), 10)), "over its"},
		{"END is not JSON", joined(out, frame(wire.End, "ok")), "END is not readable"},
		{"END of another shape", joined(out, frame(wire.End, `{"exited":"yes"}`)), "END is not readable"},
		{"END with a deep document", joined(out, frame(wire.End, strings.Repeat("[", 10_000))), "END is not readable"},
		{"END with exit code 256", joined(out, frame(wire.End, `{"exited":true,"exit_code":256}`)), "exit code 256"},
		{"END with exit code -1", joined(out, frame(wire.End, `{"exited":true,"exit_code":-1}`)), "exit code -1"},
		{"END with signal 0", joined(out, frame(wire.End, `{}`)), "signal 0"},
		{"END with signal 65", joined(out, frame(wire.End, `{"signal":65}`)), "signal 65"},
		{"END killed for fun", joined(out, frame(wire.End, `{"exited":true,"killed":"fun"}`)), "unknown reason"},
		{"END with negative counts", joined(out, frame(wire.End, `{"exited":true,"stdout_bytes":-5}`)), "negative"},
		{"a frame after END", joined(out, frame(wire.End, endText), out), "after END"},
		{"END twice", joined(out, frame(wire.End, endText), frame(wire.End, endText)), "after END"},
		{"a byte after END", joined(out, frame(wire.End, endText), []byte{0}), "after END"},
		{"cut in a header", joined(out, []byte("O\x00")), "without a report (exit code 3)"},
		{"cut in a payload", joined(out, frame(wire.Stdout, "0123456789")[:9]), "without a report (exit code 3)"},
		{"no END", out, "without a report (exit code 3)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := runFake(t, context.Background(), program(""), func(con *fakeContainer, _ wire.JobInfo) int {
				con.send(c.bytes)
				return 3
			})
			if err != nil {
				t.Fatalf("got error %v, want an outcome", err)
			}
			if !strings.Contains(got.Invalid, c.want) {
				t.Errorf("got invalid %q, want %q in it", got.Invalid, c.want)
			}
			if got.DeadlineHit || got.Interrupted || string(got.Stdout.Data) != "kept" {
				t.Errorf("got deadline hit %v, interrupted %v, stdout %q; want what came before kept",
					got.DeadlineHit, got.Interrupted, got.Stdout.Data)
			}
		})
	}
}

// TestNonsenseIsKilledAtOnce checks that a sandbox that speaks nonsense and
// lives on is not waited for.
func TestNonsenseIsKilledAtOnce(t *testing.T) {
	t.Parallel()
	j := program("")
	j.Limits.WallMS = job.MaxLimits().WallMS
	out, err := runFake(t, context.Background(), j, func(c *fakeContainer, _ wire.JobInfo) int {
		c.send([]byte("garbage"))
		return c.untilKilled()
	})
	if err != nil || out.Invalid == "" || out.DeadlineHit {
		t.Errorf("got invalid %q, deadline hit %v, error %v; want an invalid outcome, before the deadline", out.Invalid, out.DeadlineHit, err)
	}
}

func TestStreamsAreCappedHereToo(t *testing.T) {
	t.Parallel()
	j := program("")
	j.Limits.OutputBytes = 1000
	out, err := runFake(t, context.Background(), j, func(c *fakeContainer, _ wire.JobInfo) int {
		for range 20 {
			c.send(frame(wire.Stdout, strings.Repeat("o", 999)), frame(wire.Stderr, strings.Repeat("e", wire.MaxChunk)))
		}
		c.send(frame(wire.End, `{"signal":9,"killed":"stdout","stdout_bytes":123456,"stderr_bytes":5}`))
		return 0
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(out.Stdout.Data); got != strings.Repeat("o", 1000) || out.Stdout.Total != 123456 || !out.Stdout.Truncated() {
		t.Errorf("stdout: got %d bytes of %d, want the cap's 1000 of the 123456 that the supervisor counted", len(got), out.Stdout.Total)
	}
	if got := string(out.Stderr.Data); got != strings.Repeat("e", 1000) || out.Stderr.Total != 20*wire.MaxChunk {
		t.Errorf("stderr: got %d bytes of %d, want the cap's 1000 of all that came", len(got), out.Stderr.Total)
	}
}

func TestTraceMemoryArrives(t *testing.T) {
	t.Parallel()
	out, err := runFake(t, context.Background(), program(""), func(c *fakeContainer, _ wire.JobInfo) int {
		c.send(frame(wire.Trace, "\x00ab"), frame(wire.Trace, "\x03end"), frame(wire.Trace, "\x00cd"), frame(wire.End, endText))
		return 0
	})
	if err != nil {
		t.Fatal(err)
	}
	want := [wire.AreaCount][]byte{wire.AreaEvents: []byte("abcd"), wire.AreaEnd: []byte("end")}
	if diff := cmp.Diff(want, out.Memory); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWorkerDeadline(t *testing.T) {
	t.Parallel()
	j := program("")
	j.Limits.WallMS = 100
	out, err := runFake(t, context.Background(), j, func(c *fakeContainer, _ wire.JobInfo) int {
		c.send(frame(wire.Stdout, "so far"))
		return c.untilKilled()
	})
	if err != nil {
		t.Fatal(err)
	}
	if !out.DeadlineHit || out.End != nil || out.Invalid != "" || string(out.Stdout.Data) != "so far" {
		t.Errorf("got %+v, want the deadline hit and what came before it", out)
	}
	if out.Wall < j.Limits.Wall()+deadlineSlack {
		t.Errorf("got wall %v, want half a second more than %v", out.Wall, j.Limits.Wall())
	}
}

// TestPausedSandboxIsNoTimeLimit has somebody pause a sandbox: its program has had no time, so it has not used it up.
func TestPausedSandboxIsNoTimeLimit(t *testing.T) {
	t.Parallel()
	j := program("")
	j.Limits.WallMS = 100
	out, err := runFake(t, context.Background(), j, func(c *fakeContainer, _ wire.JobInfo) int {
		c.paused.Store(true)
		return c.untilKilled()
	})
	if !errors.Is(err, errPaused) {
		t.Errorf("got %+v, error %v; want %v", out, err, errPaused)
	}
}

// TestReportOfDeadProgramMayTakeItsTime checks that the deadline does not cut
// off the trace of a program that is dead.
func TestReportOfDeadProgramMayTakeItsTime(t *testing.T) {
	t.Parallel()
	j := program("")
	j.Limits.WallMS = 3000 // in which a busy machine sees that the trace has begun
	out, err := runFake(t, context.Background(), j, func(c *fakeContainer, _ wire.JobInfo) int {
		c.send(frame(wire.Trace, "\x00ab"))
		select {
		case <-time.After(j.Limits.Wall() + deadlineSlack + 200*time.Millisecond):
		case <-c.killed:
			return killedExit
		}
		c.send(frame(wire.Trace, "\x00cd"), frame(wire.End, `{"signal":9,"killed":"wall"}`))
		return 0
	})
	if err != nil || out.DeadlineHit || out.End == nil || out.End.Killed != "wall" || string(out.Memory[0]) != "abcd" {
		t.Errorf("got %+v, error %v; want the whole report", out, err)
	}
}

func TestSandboxThatDoesNotRead(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t)
	f.pid1 = func(c *fakeContainer) int {
		c.send(frame(wire.Ready, readyText))
		return c.untilKilled()
	}
	j := program(strings.Repeat("#", 6<<20)) // more than any buffer on the way takes
	j.Limits.WallMS = 100
	// No job has run, so this is no verdict on one.
	if out, err := launchFake(t, f.open(nil)).Run(context.Background(), j); err == nil {
		t.Errorf("got %+v, want an error", out)
	}
}

// TestLossOfEngineIsAnError tells what the platform did from what the program did.
func TestLossOfEngineIsAnError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		do   func(f *fakeEngine, c *fakeContainer) int
	}{
		{"the engine dies", func(f *fakeEngine, c *fakeContainer) int {
			go f.stop()
			return c.untilKilled()
		}},
		{"the stream is cut and the container lives", func(_ *fakeEngine, c *fakeContainer) int {
			c.cut()
			return c.untilKilled()
		}},
		{"the engine reports an error in the stream", func(_ *fakeEngine, c *fakeContainer) int {
			_ = c.raw(streamEngine, []byte("disk on fire"))
			return c.untilKilled()
		}},
		{"the stream is no engine's", func(_ *fakeEngine, c *fakeContainer) int {
			_ = c.raw(9, nil)
			return c.untilKilled()
		}},
		{"the sandbox says that it is broken", func(_ *fakeEngine, c *fakeContainer) int {
			c.send(frame(wire.Fail, `{"error":"no interpreter"}`))
			return 1
		}},
		{"the engine forgets the container", func(f *fakeEngine, c *fakeContainer) int {
			f.fail(opInspect, 500)
			c.cut()
			return c.untilKilled()
		}},
		{"the engine goes down and kills first", func(f *fakeEngine, _ *fakeContainer) int {
			f.hang(opInspect)
			return killedExit
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFakeEngine(t)
			f.pid1 = supervised(func(con *fakeContainer, _ wire.JobInfo) int { return c.do(f, con) })
			out, err := launchFake(t, f.open(brief)).Run(context.Background(), program(""))
			if err == nil {
				t.Errorf("got %+v, want an error", out)
			}
			if errors.Is(err, sandbox.ErrClosed) || errors.Is(err, sandbox.ErrUsed) {
				t.Errorf("got %v, want an error of the platform", err)
			}
		})
	}
}

// TestKilledFromOutside checks what is made of a sandbox whose PID 1 was killed by somebody else: under
// gVisor that can be its program, else it cannot.
func TestKilledFromOutside(t *testing.T) {
	t.Parallel()
	for runtime, retry := range map[string]bool{"runc": true, "crun": true, "runsc": false} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			f := newFakeEngine(t)
			f.pid1 = supervised(func(c *fakeContainer, _ wire.JobInfo) int {
				c.send(frame(wire.Stdout, "so far"))
				return killedExit
			})
			b := launchFake(t, f.open(brief))
			b.e.host.Runtime = runtime
			out, err := b.Run(context.Background(), program(""))
			if errors.Is(err, sandbox.ErrKilled) != retry || (err == nil) == retry {
				t.Errorf("got error %v, want ErrKilled %v", err, retry)
			}
			if !retry && (!strings.Contains(out.Invalid, "exit code 137") || string(out.Stdout.Data) != "so far") {
				t.Errorf("got %+v, want an invalid outcome", out)
			}
		})
	}
}

// TestEngineThatCameBack has the engine die under a job, and its successor say that the container has ended.
func TestEngineThatCameBack(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t)
	died := make(chan struct{})
	f.answer(opWait, func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		<-died
		panic(http.ErrAbortHandler)
	})
	f.pid1 = supervised(func(*fakeContainer, wire.JobInfo) int {
		close(died)
		return 255 // what engines say of a container whose end they did not see
	})
	if out, err := launchFake(t, f.open(brief)).Run(context.Background(), program("")); err == nil {
		t.Errorf("got %+v, want an error: the program did not end the engine", out)
	}
}

func TestDeathForMemory(t *testing.T) {
	t.Parallel()
	for name, die := range map[string]func(*fakeContainer){
		"noted":                    func(c *fakeContainer) { c.oom = true },
		"heard of after its death": func(c *fakeContainer) { c.lateOOM = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := runFake(t, context.Background(), program(""), func(c *fakeContainer, _ wire.JobInfo) int {
				die(c)
				return killedExit
			})
			if err != nil || !out.EngineOOM || out.End != nil {
				t.Errorf("got %+v, error %v; want a death for memory", out, err)
			}
		})
	}
}

// TestKillOfTheProgramForMemory is about a supervisor that cannot read its
// cgroup, as under gVisor: only the engine can tell what a SIGKILL was for.
func TestKillOfTheProgramForMemory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  string
		oom  bool
		want bool
	}{
		"for memory":                   {`{"signal":9,"oom_kills":-1}`, true, true},
		"by the program itself":        {`{"signal":9,"oom_kills":-1}`, false, false},
		"for a limit":                  {`{"signal":9,"killed":"wall","oom_kills":-1}`, true, false},
		"with a view of the cgroup":    {`{"signal":9,"oom_kills":0}`, true, false},
		"a child, and the parent left": {`{"exited":true,"oom_kills":-1}`, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := runFake(t, context.Background(), program(""), func(con *fakeContainer, _ wire.JobInfo) int {
				con.oom = c.oom
				con.send(frame(wire.End, c.end))
				return 0
			})
			if err != nil || out.End == nil || out.EngineOOM != c.want {
				t.Errorf("got %+v, error %v; want a report, and killed for memory %v", out, err, c.want)
			}
		})
	}
}

// TestInnerLimit checks who is told to bound its own tasks.
func TestInnerLimit(t *testing.T) {
	t.Parallel()
	for runtime, want := range map[string]int64{"runc": 0, "crun": 0, "runsc": wire.SupervisorTasks + 64, "gvisor": wire.SupervisorTasks + 64} {
		if got := jobInfo(program(""), innerLimit(runtime, job.DefaultLimits().Processes)).NProc; got != want {
			t.Errorf("%s: got %d, want %d", runtime, got, want)
		}
	}
}

func TestDeadSandboxGetsNoJob(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t)
	f.pid1 = func(c *fakeContainer) int {
		c.send(frame(wire.Ready, readyText))
		return 7
	}
	b := launchFake(t, f.open(nil))
	<-b.waited
	if out, err := b.Run(context.Background(), program("")); !errors.Is(err, errGone) {
		t.Errorf("got %+v, %v; want an error: the job had no part in it", out, err)
	}
}

func TestExpiredSandboxGetsNoJob(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t)
	f.pid1 = supervised(func(*fakeContainer, wire.JobInfo) int { return 0 })
	b := launchFake(t, f.open(func(c *Config) { c.MaxIdle = time.Nanosecond }))
	if _, err := b.Run(context.Background(), program("")); !errors.Is(err, sandbox.ErrExpired) {
		t.Errorf("got %v, want ErrExpired", err)
	}
}

// TestAnswersWhileEngineHangs checks that a job is answered when its container
// cannot be killed.
func TestAnswersWhileEngineHangs(t *testing.T) {
	t.Parallel()
	for name, cancelled := range map[string]bool{"deadline": false, "cancelled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeEngine(t)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			f.pid1 = supervised(func(c *fakeContainer, _ wire.JobInfo) int {
				c.send(frame(wire.Stdout, "so far"))
				if cancelled {
					cancel()
				}
				return c.untilKilled()
			})
			f.hang(opKill)
			f.hang(opRemove)
			e := f.open(brief)
			b := launchFake(t, e)
			f.hang(opInspect)
			j := program("")
			if !cancelled {
				j.Limits.WallMS = 100
			}
			out, err := b.Run(ctx, j)
			switch {
			case cancelled && (err != nil || !out.Interrupted || string(out.Stdout.Data) != "so far"):
				t.Errorf("got %+v, error %v; want an answer with what came before", out, err)
			case !cancelled && err == nil:
				// The report of a program that ended in time may be stuck in the engine.
				t.Errorf("got %+v, want an error: nothing says that the program took too long", out)
			}
			if err := b.Close(); !errors.Is(err, sandbox.ErrQuarantined) || e.Quarantined() != 1 {
				t.Errorf("Close: got %v with %d in quarantine, want ErrQuarantined and 1", err, e.Quarantined())
			}
		})
	}
}
