package sandboxtest

import (
	"bytes"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/wire"
)

// programCase is one program and what must be observed of it. The programs
// are Python; the comments that start with "#: " say the same to package fake.
type programCase struct {
	name  string
	job   job.Job
	check func(t *testing.T, j job.Job, out sandbox.Outcome)
}

// with returns newJob(source) after change.
func with(source string, change func(*job.Job)) job.Job {
	j := newJob(source)
	change(&j)
	return j
}

const smallCap = 1_000

// wallMS is a limit on wall time within which a program gets as far as its hang.
const wallMS = 4_000

func programCases() []programCase {
	return append([]programCase{
		{"hello", newJob("#: stdout \"hello\\n\"\nprint('hello')\n"), func(t *testing.T, j job.Job, out sandbox.Outcome) {
			wantExit(t, out, 0)
			wantText(t, "stdout", out.Stdout, "hello\n")
			wantText(t, "stderr", out.Stderr, "")
			if out.Wall <= 0 || out.StartedAt.IsZero() || time.Since(out.StartedAt) > patience {
				t.Errorf("got wall %v, started at %v; want both measured", out.Wall, out.StartedAt)
			}
			r := out.Runtime
			if r.Language != j.Language || r.Version == "" || r.Image == "" || r.Engine == "" || r.OCIRuntime == "" {
				t.Errorf("got runtime %+v, want every field filled", r)
			}
		}},
		{"exit code", newJob("#: exit 3\nimport sys\nsys.exit(3)\n"), func(t *testing.T, _ job.Job, out sandbox.Outcome) {
			wantExit(t, out, 3)
		}},
		{"exit code that looks like a kill", newJob("#: exit 137\nimport os\nos._exit(137)\n"), func(t *testing.T, _ job.Job, out sandbox.Outcome) {
			wantExit(t, out, 137)
			if out.EngineOOM || out.End.OOMKills > 0 {
				t.Errorf("got an exit taken for a kill: %+v", out.End)
			}
		}},
		{"signal", newJob("#: raise 11\nimport os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"), func(t *testing.T, _ job.Job, out sandbox.Outcome) {
			wantSignal(t, out, syscall.SIGSEGV, "")
		}},
		{"its own SIGKILL", newJob("#: raise 9\nimport os\nos.kill(os.getpid(), 9)\n"), func(t *testing.T, _ job.Job, out sandbox.Outcome) {
			wantSignal(t, out, syscall.SIGKILL, "")
		}},
		{"stdin, arguments and files", with(inputProgram, func(j *job.Job) {
			j.Stdin, j.Args = "from stdin\n", []string{"-c", "two words"}
			j.Files["data/notes.txt"] = "from a file\n"
		}), func(t *testing.T, _ job.Job, out sandbox.Outcome) {
			wantExit(t, out, 0)
			wantText(t, "stdout", out.Stdout, "from stdin\n-c\ntwo words\nfrom a file\n")
		}},
		{"both streams", newJob("#: stdout \"to stdout\"\n#: stderr \"to stderr\"\nimport sys\n" +
			"sys.stdout.write('to stdout')\nsys.stderr.write('to stderr')\n"), func(t *testing.T, _ job.Job, out sandbox.Outcome) {
			wantExit(t, out, 0)
			wantText(t, "stdout", out.Stdout, "to stdout")
			wantText(t, "stderr", out.Stderr, "to stderr")
		}},
	}, limitCases()...)
}

const inputProgram = `#: stdin
#: args
#: file "data/notes.txt"
import sys
sys.stdout.write(sys.stdin.read())
for arg in sys.argv[1:]:
    print(arg)
sys.stdout.write(open("data/notes.txt").read())
`

func limitCases() []programCase {
	flood := func(stream, bytes string) string {
		return "#: flood " + stream + " " + bytes + "\nimport sys\nsys." + stream + ".write('x' * " + bytes + ")\n"
	}
	capped := func(source string) job.Job {
		return with(source, func(j *job.Job) { j.Limits.OutputBytes = smallCap })
	}
	return []programCase{
		{"output exactly at the cap", capped(flood("stdout", "1000")), func(t *testing.T, _ job.Job, out sandbox.Outcome) {
			wantExit(t, out, 0)
			wantText(t, "stdout", out.Stdout, strings.Repeat("x", smallCap))
		}},
		{"one byte over the cap", capped(flood("stdout", "1001")), wantFlood(wire.KilledStdout)},
		{"far over the cap", capped(flood("stdout", "10000000")), wantFlood(wire.KilledStdout)},
		{"stderr over the cap", capped(flood("stderr", "1001")), wantFlood(wire.KilledStderr)},
		{"wall time", with("#: stdout \"before\\n\"\n#: hang\nimport time\nprint('before')\ntime.sleep(3600)\n", func(j *job.Job) {
			j.Limits.WallMS = wallMS
		}), wantWall},
		{"wall time of a deaf program", with(deafProgram, func(j *job.Job) { j.Limits.WallMS = wallMS }), wantWall},
		{"processor time", with("#: spin\nwhile True:\n    pass\n", func(j *job.Job) { j.Limits.CPUMS = 300 }),
			func(t *testing.T, j job.Job, out sandbox.Outcome) {
				wantSignal(t, out, syscall.SIGKILL, wire.KilledCPU)
				if out.End.CPUMS < j.Limits.CPUMS {
					t.Errorf("got %d ms of processor time, want at least %d", out.End.CPUMS, j.Limits.CPUMS)
				}
			}},
		{"memory", with("#: grow\nhoard = []\nwhile True:\n    hoard.append(bytearray(1 << 20))\n", func(j *job.Job) {
			j.Limits.MemoryBytes = 64 << 20
			j.Trace.Mode = job.TraceOff
		}), func(t *testing.T, _ job.Job, out sandbox.Outcome) {
			if out.Invalid != "" && !out.EngineOOM {
				t.Fatalf("got invalid (%s), want a kill for memory", out.Invalid)
			}
			if !out.EngineOOM && (out.End == nil || out.End.OOMKills < 1 || out.End.Exited) {
				t.Errorf("got %+v, want a kill for memory", out.End)
			}
		}},
	}
}

const deafProgram = `#: stdout "before\n"
#: hang
import os, signal, time
print("before", flush=True)
for n in range(1, 65):
    try:
        signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
if os.fork() == 0:
    os.setsid()
    while True:
        time.sleep(1)
os.kill(0, signal.SIGSTOP)
while True:
    time.sleep(1)
`

func wantEnd(t *testing.T, out sandbox.Outcome) *wire.EndInfo {
	t.Helper()
	if out.End == nil || out.Invalid != "" || out.DeadlineHit || out.Interrupted {
		t.Fatalf("got end %+v, invalid %q, deadline hit %v, interrupted %v; want a report and nothing else",
			out.End, out.Invalid, out.DeadlineHit, out.Interrupted)
	}
	return out.End
}

func wantExit(t *testing.T, out sandbox.Outcome, code int) {
	t.Helper()
	if end := wantEnd(t, out); !end.Exited || end.ExitCode != code || end.Killed != "" {
		t.Errorf("got %+v, want exit code %d (stderr %q)", end, code, out.Stderr.Data)
	}
}

func wantSignal(t *testing.T, out sandbox.Outcome, by syscall.Signal, killed string) {
	t.Helper()
	if end := wantEnd(t, out); end.Exited || end.Signal != int(by) || end.Killed != killed {
		t.Errorf("got %+v, want signal %d, killed %q", end, by, killed)
	}
}

func wantText(t *testing.T, name string, s sandbox.Stream, text string) {
	t.Helper()
	if string(s.Data) != text || s.Total != int64(len(text)) || s.Truncated() {
		t.Errorf("%s: got %.200q, total %d; want %.200q whole", name, s.Data, s.Total, text)
	}
}

// wantFlood wants the run ended for its output, with the prefix kept.
func wantFlood(stream string) func(*testing.T, job.Job, sandbox.Outcome) {
	return func(t *testing.T, j job.Job, out sandbox.Outcome) {
		// Whether the program had exited before it could be killed is chance.
		if end := wantEnd(t, out); end.Killed != stream {
			t.Errorf("got %+v, want killed for %s", end, stream)
		}
		s := out.Stdout
		if stream == wire.KilledStderr {
			s = out.Stderr
		}
		if want := bytes.Repeat([]byte("x"), int(j.Limits.OutputBytes)); !bytes.Equal(s.Data, want) || !s.Truncated() {
			t.Errorf("%s: got %d bytes of a total of %d, want the first %d", stream, len(s.Data), s.Total, len(want))
		}
	}
}

// wantWall wants the run ended at its wall limit, from inside or outside, with
// what came before.
func wantWall(t *testing.T, j job.Job, out sandbox.Outcome) {
	if !out.DeadlineHit && (out.End == nil || out.End.Killed != wire.KilledWall) || out.Invalid != "" {
		t.Errorf("got %+v, deadline hit %v, invalid %q; want killed for wall time", out.End, out.DeadlineHit, out.Invalid)
	}
	wantText(t, "stdout", out.Stdout, "before\n")
	if out.Wall < j.Limits.Wall() {
		t.Errorf("got an end after %v, before the limit of %v", out.Wall, j.Limits.Wall())
	}
}
