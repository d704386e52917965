package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execra/tracefleet/internal/job"
)

// write puts a file into a temporary folder and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// trace prints a result in every form; a program that fails is no failure of the command.
func TestTraceCommand(t *testing.T) {
	f := newFleet(t)
	f.start("w1", 2)
	file := write(t, "grüße.py", "import sys\nname = input()\nprint('Grüße,', name, sys.argv[1:])\nvalues = [1, 2]\nvalues[2]\n")
	stdin := write(t, "stdin.txt", "Ödön 🚀\n")
	arguments := func(format string) []string {
		return []string{"trace", file, "--stdin", stdin, "--arg", "--flag", "--arg", "zwei Wörter", "--format", format}
	}
	t.Run("text", func(t *testing.T) {
		t.Parallel()
		got := f.enqueuer(t, "", arguments("text")...)
		text := got.done(t)
		for _, part := range []string{"Grüße, Ödön 🚀", "IndexError", "values[2]", "--flag"} {
			if !strings.Contains(text, part) {
				t.Errorf("the text has no %q:\n%s", part, text)
			}
		}
		if !strings.Contains(text+got.stderr, job.SandboxNotice) {
			t.Errorf("got no notice %q", job.SandboxNotice)
		}
		if strings.Contains(text, "\x1b") {
			t.Error("got colours in a pipe")
		}
	})
	t.Run("json", func(t *testing.T) {
		t.Parallel()
		var r job.Result
		if err := json.Unmarshal([]byte(f.enqueuer(t, "", arguments("json")...).done(t)), &r); err != nil {
			t.Fatal(err)
		}
		if r.Status != job.StatusException || r.Stdout != "Grüße, Ödön 🚀 ['--flag', 'zwei Wörter']\n" || r.Exception == nil || r.Exception.Line != 5 {
			t.Errorf("got status %s, stdout %q, exception %+v, want the IndexError of line 5", r.Status, r.Stdout, r.Exception)
		}
	})
	t.Run("execra", func(t *testing.T) {
		t.Parallel()
		text := f.enqueuer(t, "", arguments("execra")...).done(t)
		var got any
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("not JSON: %v\n%s", err, text)
		}
		for _, part := range []string{"event_type", "lineno", "exception"} {
			if !strings.Contains(text, part) {
				t.Errorf("Execra's form has no %q:\n%.500s", part, text)
			}
		}
	})
	t.Run("folder", func(t *testing.T) {
		t.Parallel()
		text := f.enqueuer(t, "", "trace", "testdata/cases/62_entrypoint_in_a_folder", "--entrypoint", "app/start.py", "--format", "json").done(t)
		var r job.Result
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		wantOK(t, r, "['app/start.py'] /job/app/start.py __main__\n/job app\n15\n")
	})
	t.Run("standard input", func(t *testing.T) {
		t.Parallel()
		var r job.Result
		if err := json.Unmarshal([]byte(f.enqueuer(t, "print(6 * 7)\n", "trace", "-", "--format", "json").done(t)), &r); err != nil {
			t.Fatal(err)
		}
		wantOK(t, r, "42\n")
	})
	t.Run("limits", func(t *testing.T) {
		t.Parallel()
		endless := write(t, "endless.py", "print('on', flush=True)\nwhile True: pass\n")
		var r job.Result
		text := f.enqueuer(t, "", "trace", endless, "--wall", "500ms", "--memory", "64MiB", "--output", "2kB", "--format", "json").done(t)
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		if r.Status != job.StatusTimeLimit || deref(r.Error) != "Code execution timed out after 0.5s." || r.Limits.MemoryBytes != 64<<20 || r.Limits.OutputBytes != 2000 {
			t.Errorf("got status %s, error %q, limits %+v, want a time limit of 0.5s with what was asked for", r.Status, deref(r.Error), r.Limits)
		}
	})
}

func TestExitCodes(t *testing.T) {
	f := newFleet(t)
	cases := map[string]struct {
		args []string
		code int
	}{
		"no command":              {[]string{"bogus"}, 2},
		"an unknown flag":         {[]string{"trace", "x.py", "--bogus"}, 2},
		"an unknown format":       {[]string{"get", "nobody", "--format", "xml"}, 2},
		"a wall that is no time":  {[]string{"trace", "x.py", "--wall", "soon"}, 2},
		"a file that is missing":  {[]string{"trace", "no-such-file.py"}, 1},
		"a job that is not there": {[]string{"get", "nobody"}, 3},
		"cancel of nothing":       {[]string{"cancel", "nobody"}, 3},
		"a wall that is too long": {[]string{"trace", write(t, "x.py", "1"), "--wall", "1h"}, 4},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := f.enqueuer(t, "", c.args...)
			if got.code != c.code || strings.Count(got.stderr, "\n") != 1 || got.stdout != "" {
				t.Errorf("got exit code %d, stdout %q, stderr %q, want %d and one line on stderr", got.code, got.stdout, got.stderr, c.code)
			}
		})
	}
}

func TestSameIDTwice(t *testing.T) {
	f := newFleet(t)
	document := program(t, "print('once')\n", map[string]any{"id": "the-same"})
	first, second := f.submit(t, document), f.submit(t, document)
	if first != "the-same" || second != first {
		t.Errorf("got ids %q, %q, want the-same twice", first, second)
	}
	other := f.enqueuer(t, string(program(t, "print('other')\n", map[string]any{"id": "the-same"})), "submit", "--job", "-")
	if other.code != 4 || other.stdout != "" || !strings.Contains(other.stderr, "the-same") {
		t.Errorf("same id with other input: got exit code %d, stdout %q, stderr %q, want 4 and the id named", other.code, other.stdout, other.stderr)
	}
	f.start("w1", 2)
	r := f.result(t, first)
	wantOK(t, r, "once\n")
	if again := f.submit(t, document); again != first {
		t.Errorf("submitting a finished job again: got id %q, want %q", again, first)
	}
	if repeated := f.result(t, first); !repeated.FinishedAt.Equal(r.FinishedAt) {
		t.Errorf("the job ran again: got finished at %v, want %v", repeated.FinishedAt, r.FinishedAt)
	}
}

func TestCancel(t *testing.T) {
	f := newFleet(t)
	f.start("w1", 1)
	running := f.submit(t, program(t, "import time\nprint('before')\nready = True\ntime.sleep(600)\n", map[string]any{"limits": map[string]any{"wall_ms": 300_000}}))
	f.waitRunning(t, running)
	queued := f.submit(t, program(t, "print('must not run')\n", nil))
	f.enqueuer(t, "", "cancel", queued).done(t)
	if r := f.result(t, queued); r.Status != job.StatusCanceled || r.Stdout != "" || r.Trace != nil {
		t.Errorf("queued job: got status %s, stdout %q, want canceled without anything", r.Status, r.Stdout)
	}
	f.enqueuer(t, "", "cancel", running).done(t)
	r := f.result(t, running)
	if r.Status != job.StatusCanceled || r.Returncode != nil {
		t.Errorf("running job: got status %s, returncode %v, want canceled without one", r.Status, r.Returncode)
	}
	// The worker and its slot are free again, and cancelling what is over changes nothing.
	after := f.submit(t, program(t, "print('after')\n", nil))
	wantOK(t, f.result(t, after), "after\n")
	late := f.enqueuer(t, "", "cancel", after)
	if late.code != 0 || !strings.Contains(late.stdout+late.stderr, "finished") {
		t.Errorf("cancel of a finished job: got exit code %d, %q %q, want 0 and to hear that it is finished", late.code, late.stdout, late.stderr)
	}
	wantOK(t, f.result(t, after), "after\n")
}
