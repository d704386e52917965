package runner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/trace"
	"github.com/execra/tracefleet/internal/wire"
)

func exited(code int) *wire.EndInfo { return &wire.EndInfo{Exited: true, ExitCode: code} }

func killedBy(signal int) *wire.EndInfo { return &wire.EndInfo{Signal: signal} }

// with changes a report.
func with(e *wire.EndInfo, change func(*wire.EndInfo)) *wire.EndInfo {
	change(e)
	return e
}

func supervisorKilled(why string) *wire.EndInfo { return &wire.EndInfo{Signal: 9, Killed: why} }

func TestClassify(t *testing.T) {
	t.Parallel()
	limits := job.DefaultLimits()
	limits.WallMS, limits.CPUMS = 1_500, 10_000
	raised := testimony{exception: &trace.Exception{Type: "ValueError"}}
	const (
		wallText   = "Code execution timed out after 1.5s."
		cpuText    = "Code execution exceeded its CPU limit of 10s."
		memoryText = "Code execution exceeded its memory limit of 256 MiB."
		outText    = "Code execution exceeded its output limit of 1000000 bytes on stdout."
		errText    = "Code execution exceeded its output limit of 1000000 bytes on stderr."
		bothText   = "Code execution exceeded its output limit of 1000000 bytes on stdout and stderr."
	)
	type want struct {
		status job.Status
		err    string
		code   any
		signal any
		hits   []job.LimitName
	}
	for _, c := range []struct {
		name     string
		outcome  sandbox.Outcome
		said     testimony
		canceled bool
		want     want
	}{
		{"exit 0", sandbox.Outcome{End: exited(0)}, testimony{}, false, want{status: "ok", code: 0}},
		{"exit 3", sandbox.Outcome{End: exited(3)}, testimony{}, false, want{status: "exit_nonzero", code: 3}},
		{"exit 255", sandbox.Outcome{End: exited(255)}, testimony{}, false, want{status: "exit_nonzero", code: 255}},
		{"exit 137 is no signal", sandbox.Outcome{End: exited(137)}, testimony{}, false, want{status: "exit_nonzero", code: 137}},
		{"exit 1", sandbox.Outcome{End: exited(1)}, testimony{}, false, want{status: "exit_nonzero", code: 1}},
		{"exception", sandbox.Outcome{End: exited(1)}, raised, false, want{status: "exception", code: 1}},
		{"syntax error", sandbox.Outcome{End: exited(1)}, testimony{syntaxError: true, exception: &trace.Exception{}}, false, want{status: "syntax_error", code: 1}},
		{"testimony does not turn success into failure", sandbox.Outcome{End: exited(0)}, raised, false, want{status: "ok", code: 0}},
		{"testimony does not explain another exit status", sandbox.Outcome{End: exited(2)}, testimony{syntaxError: true, exception: &trace.Exception{}}, false, want{status: "exit_nonzero", code: 2}},
		{"testimony does not explain a signal", sandbox.Outcome{End: killedBy(11)}, raised, false, want{status: "signaled", code: -11, signal: "SIGSEGV"}},
		{"its own SIGKILL", sandbox.Outcome{End: killedBy(9)}, testimony{}, false, want{status: "signaled", code: -9, signal: "SIGKILL"}},
		{"its own SIGKILL, counter unknown", sandbox.Outcome{End: with(killedBy(9), func(e *wire.EndInfo) { e.OOMKills = -1 })}, testimony{}, false, want{status: "signaled", code: -9, signal: "SIGKILL"}},
		{"SIGINT", sandbox.Outcome{End: killedBy(2)}, raised, false, want{status: "signaled", code: -2, signal: "SIGINT"}},
		{"a real-time signal", sandbox.Outcome{End: killedBy(40)}, testimony{}, false, want{status: "signaled", code: -40, signal: "SIGRTMIN+6"}},
		{"a signal of the C library", sandbox.Outcome{End: killedBy(32)}, testimony{}, false, want{status: "signaled", code: -32, signal: "signal 32"}},
		{"its own SIGXCPU", sandbox.Outcome{End: killedBy(24)}, testimony{}, false, want{status: "signaled", code: -24, signal: "SIGXCPU"}},
		{"SIGXFSZ", sandbox.Outcome{End: killedBy(25)}, testimony{}, false, want{status: "signaled", code: -25, signal: "SIGXFSZ", hits: []job.LimitName{"file_size"}}},

		{"wall", sandbox.Outcome{End: supervisorKilled("wall")}, testimony{}, false, want{status: "time_limit", err: wallText, hits: []job.LimitName{"wall"}}},
		{"wall, by the worker", sandbox.Outcome{DeadlineHit: true, Invalid: "end without END"}, testimony{}, false, want{status: "time_limit", err: wallText, hits: []job.LimitName{"wall"}}},
		{"wall, by the worker, and a late report", sandbox.Outcome{DeadlineHit: true, End: exited(0)}, testimony{}, false, want{status: "time_limit", err: wallText, hits: []job.LimitName{"wall"}}},
		{"cpu", sandbox.Outcome{End: supervisorKilled("cpu")}, testimony{}, false, want{status: "time_limit", err: cpuText, hits: []job.LimitName{"cpu"}}},
		{"cpu, by the kernel", sandbox.Outcome{End: with(killedBy(24), func(e *wire.EndInfo) { e.CPUMS = 12_000 })}, testimony{}, false, want{status: "time_limit", err: cpuText, hits: []job.LimitName{"cpu"}}},

		{"memory", sandbox.Outcome{End: with(killedBy(9), func(e *wire.EndInfo) { e.OOMKills = 1 })}, testimony{}, false, want{status: "memory_limit", err: memoryText, hits: []job.LimitName{"memory"}}},
		{"memory, by the engine's word", sandbox.Outcome{EngineOOM: true, End: with(killedBy(9), func(e *wire.EndInfo) { e.OOMKills = -1 })}, testimony{}, false, want{status: "memory_limit", err: memoryText, hits: []job.LimitName{"memory"}}},
		{"memory, everything gone", sandbox.Outcome{EngineOOM: true, Invalid: "end without END"}, testimony{}, false, want{status: "memory_limit", err: memoryText, hits: []job.LimitName{"memory"}}},
		{"memory of a child", sandbox.Outcome{EngineOOM: true, End: with(exited(0), func(e *wire.EndInfo) { e.OOMKills = 1 })}, testimony{}, false, want{status: "ok", code: 0, hits: []job.LimitName{"memory"}}},
		{"memory of a child, then another signal", sandbox.Outcome{End: with(killedBy(6), func(e *wire.EndInfo) { e.OOMKills = 1 })}, testimony{}, false, want{status: "signaled", code: -6, signal: "SIGABRT", hits: []job.LimitName{"memory"}}},
		{"memory of a child, then the wall limit", sandbox.Outcome{End: with(supervisorKilled("wall"), func(e *wire.EndInfo) { e.OOMKills = 1 })}, testimony{}, false, want{status: "time_limit", err: wallText, hits: []job.LimitName{"wall", "memory"}}},
		{"memory goes before time", sandbox.Outcome{EngineOOM: true, DeadlineHit: true}, testimony{}, false, want{status: "memory_limit", err: memoryText, hits: []job.LimitName{"wall", "memory"}}},

		{"stdout", sandbox.Outcome{End: supervisorKilled("stdout")}, testimony{}, false, want{status: "output_limit", err: outText, hits: []job.LimitName{"stdout"}}},
		{"stderr", sandbox.Outcome{End: supervisorKilled("stderr")}, testimony{}, false, want{status: "output_limit", err: errText, hits: []job.LimitName{"stderr"}}},
		{"output exactly at the cap", sandbox.Outcome{End: with(exited(0), func(e *wire.EndInfo) { e.StdoutBytes = 1_000_000 }), Stdout: sandbox.Stream{Total: 1_000_000}}, testimony{}, false, want{status: "ok", code: 0}},
		{"one byte more, then exit", sandbox.Outcome{End: with(exited(0), func(e *wire.EndInfo) { e.StdoutBytes = 1_000_001 })}, testimony{}, false, want{status: "output_limit", err: outText, hits: []job.LimitName{"stdout"}}},
		{"one byte more, seen by the worker only", sandbox.Outcome{End: exited(1), Stderr: sandbox.Stream{Total: 1_000_001}}, raised, false, want{status: "output_limit", err: errText, hits: []job.LimitName{"stderr"}}},
		{"both streams", sandbox.Outcome{End: with(supervisorKilled("stdout"), func(e *wire.EndInfo) { e.StderrBytes = 2_000_000 })}, testimony{}, false, want{status: "output_limit", err: bothText, hits: []job.LimitName{"stdout", "stderr"}}},
		{"time goes before output", sandbox.Outcome{End: supervisorKilled("wall"), Stdout: sandbox.Stream{Total: 1_000_001}}, testimony{}, false, want{status: "time_limit", err: wallText, hits: []job.LimitName{"wall", "stdout"}}},
		{"output goes before a missing report", sandbox.Outcome{Stdout: sandbox.Stream{Total: 1_000_001}}, testimony{}, false, want{status: "output_limit", err: outText, hits: []job.LimitName{"stdout"}}},

		{"no report", sandbox.Outcome{}, raised, false, want{status: "result_invalid", err: "The sandbox gave no usable report of the run: it ended without a report."}},
		{"nonsense", sandbox.Outcome{Invalid: "unknown frame\ntype 'Q'", End: exited(0)}, testimony{}, false, want{status: "result_invalid", err: "The sandbox gave no usable report of the run: unknown frame type 'Q'."}},
		{"an exit status that cannot be", sandbox.Outcome{End: exited(256)}, testimony{}, false, want{status: "result_invalid", err: "The sandbox gave no usable report of the run: END with exit code 256."}},
		{"a signal that cannot be", sandbox.Outcome{End: killedBy(65)}, testimony{}, false, want{status: "result_invalid", err: "The sandbox gave no usable report of the run: END with signal 65."}},
		{"neither exit nor signal", sandbox.Outcome{End: &wire.EndInfo{}}, testimony{}, false, want{status: "result_invalid", err: "The sandbox gave no usable report of the run: END with signal 0."}},
		{"an unknown reason", sandbox.Outcome{End: supervisorKilled("boredom")}, testimony{}, false, want{status: "result_invalid", err: "The sandbox gave no usable report of the run: END with an unknown reason to kill."}},
		{"a negative count", sandbox.Outcome{End: with(exited(0), func(e *wire.EndInfo) { e.CPUMS = -1 })}, testimony{}, false, want{status: "result_invalid", err: "The sandbox gave no usable report of the run: END with negative counts."}},

		{"canceled", sandbox.Outcome{Interrupted: true}, testimony{}, true, want{status: "canceled", err: "Code execution was canceled by a user."}},
		{"canceled, with a report", sandbox.Outcome{Interrupted: true, End: supervisorKilled("hangup")}, testimony{}, true, want{status: "canceled", err: "Code execution was canceled by a user."}},
		{"the worker's deadline, with a report", sandbox.Outcome{DeadlineHit: true, End: supervisorKilled("hangup")}, testimony{}, false, want{status: "time_limit", err: wallText, hits: []job.LimitName{"wall"}}},
		{"a hang-up that never was", sandbox.Outcome{End: supervisorKilled("hangup")}, testimony{}, false, want{status: "result_invalid", err: "The sandbox gave no usable report of the run: it stopped because the worker hung up, which it did not."}},
		{"canceled goes before memory", sandbox.Outcome{Interrupted: true, EngineOOM: true}, testimony{}, true, want{status: "canceled", err: "Code execution was canceled by a user.", hits: []job.LimitName{"memory"}}},

		{"processes", sandbox.Outcome{End: with(exited(0), func(e *wire.EndInfo) { e.ForksRefused = 7 })}, testimony{}, false, want{status: "ok", code: 0, hits: []job.LimitName{"processes"}}},
		{"counters unknown", sandbox.Outcome{End: with(exited(0), func(e *wire.EndInfo) { e.ForksRefused, e.OOMKills = -1, -1 })}, testimony{}, false, want{status: "ok", code: 0}},
		{"testimony of limits", sandbox.Outcome{End: exited(0)}, testimony{hits: []job.LimitName{"open_files", "inodes", "disk", "file_size", "trace_bytes", "trace_events"}}, false, want{status: "ok", code: 0, hits: []job.LimitName{"trace_events", "trace_bytes", "file_size", "disk", "inodes", "open_files"}}},
		{"testimony of what it cannot know", sandbox.Outcome{End: exited(0)}, testimony{hits: []job.LimitName{"wall", "memory", "nonsense"}}, false, want{status: "ok", code: 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := classify(limits, c.outcome, c.said, c.canceled)
			got := want{status: v.status, err: v.err, hits: v.hits}
			if v.returncode != nil {
				got.code = *v.returncode
			}
			if v.signal != nil {
				got.signal = *v.signal
			}
			if c.want.hits == nil {
				c.want.hits = []job.LimitName{}
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever an outcome says, the verdict keeps the promises of the result's format.
func FuzzClassify(f *testing.F) {
	f.Add(true, 0, 0, "", int64(0), int64(0), false, false, false, "", int64(5), uint8(0))
	f.Add(false, 0, 9, "wall", int64(1), int64(2), true, true, false, "x", int64(2_000_000), uint8(3))
	f.Fuzz(func(t *testing.T, exited bool, code, signal int, killed string, oom, forks int64, deadline, engineOOM, canceled bool, invalid string, written int64, bits uint8) {
		o := sandbox.Outcome{Invalid: invalid, DeadlineHit: deadline, EngineOOM: engineOOM, Stdout: sandbox.Stream{Total: written}}
		if bits&1 == 0 {
			o.End = &wire.EndInfo{Exited: exited, ExitCode: code, Signal: signal, Killed: killed, OOMKills: oom, ForksRefused: forks}
		}
		said := testimony{syntaxError: bits&2 != 0}
		if bits&4 != 0 {
			said.exception = &trace.Exception{}
		}
		v := classify(job.DefaultLimits(), o, said, canceled)
		switch {
		case !v.status.Valid():
			t.Errorf("unknown status %q", v.status)
		case v.status.Abnormal() != (v.err != ""):
			t.Errorf("%s with error %q", v.status, v.err)
		case v.status.Abnormal() != (v.returncode == nil):
			t.Errorf("%s with return code %v", v.status, v.returncode)
		case (v.status == job.StatusSignaled) != (v.signal != nil):
			t.Errorf("%s with signal %v", v.status, v.signal)
		}
	})
}
