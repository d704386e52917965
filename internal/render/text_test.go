package render

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/trace"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fixture is a result of a real run, as get --format json printed it, with the
// sources of its job. Times, sizes and names that differ from run to run were
// set to fixed ones.
type fixture struct {
	Files  map[string]string
	Result job.Result
}

func readFixture(t testing.TB, path string) fixture {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f fixture
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return f
}

func fixtures(t testing.TB) map[string]fixture {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	all := map[string]fixture{}
	for _, path := range paths {
		all[strings.TrimSuffix(filepath.Base(path), ".json")] = readFixture(t, path)
	}
	return all
}

func text(t testing.TB, f fixture, o Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := Text(&out, f.Result, f.Files, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); go test -update writes it anew:\n%s", path, diff)
	}
}

// TestGapsSayWhy checks that every cause of a gap is explained, with what can be done about it.
func TestGapsSayWhy(t *testing.T) {
	t.Parallel()
	for cause, want := range map[string]string{
		trace.GapEvents:  "… 7 more events were not recorded: the trace is limited to 100 events (--events)",
		trace.GapBytes:   "… 7 more events were not recorded: the trace is limited to 64 KiB (--trace-size), and a result in its size",
		trace.GapTime:    "… 7 more events were not recorded: recording had used its share of the time limit (--wall, --cpu)",
		trace.GapCorrupt: "… the trace is damaged here; 7 more events were not recorded",
	} {
		t.Run(cause, func(t *testing.T) {
			t.Parallel()
			f := fixtures(t)["off_by_one"]
			f.Result.Limits.TraceEvents, f.Result.Limits.TraceBytes = 100, 64<<10
			events := f.Result.Trace.Events
			f.Result.Trace.Gaps = []trace.Gap{{AfterSeq: events[len(events)-1].Seq, Skipped: 7, Cause: cause}}
			if got := text(t, f, Options{}); !strings.Contains(got, want) {
				t.Errorf("got %s\nwant it to say %q", got, want)
			}
		})
	}
}

// TestNothingIsCarriedOverAGap checks the recorded run with a gap: no fold reaches over it, what was known before it
// is not shown as what something was, and a look after several events is not laid to the last line of them.
func TestNothingIsCarriedOverAGap(t *testing.T) {
	t.Parallel()
	got := text(t, fixtures(t)["gap"], Options{})
	before, after, found := strings.Cut(got, "209,894 more events were not recorded")
	if !found {
		t.Fatalf("no gap in %s", got)
	}
	for name, c := range map[string]struct {
		part, text string
		want       bool
	}{
		"the loop goes on until the gap":          {before, "for i in range(30000):       i = 4", true},
		"the first look tells all":                {after, "by now", true},
		"arguments that nobody looked at":         {after, "→ step(total, i)\n", true},
		"a value from before the gap":             {after, "'first'", false},
		"a look is not laid to the last line":     {after, "kept[5]\n", true},
		"output of the gap is not put into place": {after, "out │", false},
		"the end is the end":                      {after, "✗ IndexError", true},
	} {
		if strings.Contains(c.part, c.text) != c.want {
			t.Errorf("%s: %q: want %v in\n%s", name, c.text, c.want, c.part)
		}
	}
}

// TestClassAttributesAreTold checks that what changes in a class is told where it is seen, and what it begins with is not told again.
func TestClassAttributesAreTold(t *testing.T) {
	t.Parallel()
	got := text(t, fixtures(t)["class_attribute"], Options{})
	for _, want := range []string{
		// What lies deeper than the list itself is a reference that nothing described.
		"ann.deposit(10)              Account.history = […]\n", "bob.deposit(30)              Account.history = […, …]\n",
		"ann.deposit(20)              Account.history = […, …, …]\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "Account.history = []") {
		t.Errorf("the beginning is told twice:\n%s", got)
	}
}

// TestWhatAStoppedProgramWaitedForStandsSideBySide checks that the last line of each open thread and waiting coroutine is shown, and of those only.
func TestWhatAStoppedProgramWaitedForStandsSideBySide(t *testing.T) {
	t.Parallel()
	f := fixtures(t)["deadlock"]
	want := "Where it was then\n  thread 1: main.py:21 in <module>\n      t1.join(); t2.join()\n" +
		"  thread 2: main.py:9 in left\n      with b:\n  thread 3: main.py:15 in right\n      with a:\n"
	if got := text(t, f, Options{}); !strings.Contains(got, want) {
		t.Errorf("got %s\nwant it to say\n%s", got, want)
	}
	f.Result.Status = job.StatusOK
	if got := text(t, f, Options{}); strings.Contains(got, "Where it was then") {
		t.Errorf("of a program that ended: got %s", got)
	}
	want = "Where it was then\n  thread 1: main.py:20 in <module>\n      asyncio.run(main())\n" +
		"  waiting: main.py:18 in main\n      await c\n  waiting: main.py:10 in consumer\n      item = await q.get()\n"
	if got := text(t, fixtures(t)["task_waits"], Options{}); !strings.Contains(got, want) {
		t.Errorf("got %s\nwant it to say\n%s", got, want)
	}
	step := func(seq int64, kind trace.Kind, thread, depth, line int) trace.Event {
		return trace.Event{Seq: seq, Kind: kind, Thread: thread, Depth: depth, Func: depth, Line: line}
	}
	got := positions(&trace.Trace{
		Events: []trace.Event{
			step(1, trace.KindCall, 1, 1, 1), step(2, trace.KindCall, 2, 1, 5), step(9, trace.KindLine, 1, 3, 7), step(10, trace.KindReturn, 1, 3, 7),
			step(11, trace.KindLine, 1, 2, 8), step(12, trace.KindCall, 1, 3, 9), step(13, trace.KindUnwind, 1, 3, 9), step(14, trace.KindCall, 3, 1, 4), step(15, trace.KindReturn, 3, 1, 4),
		},
		Gaps: []trace.Gap{{AfterSeq: 2, Skipped: -1}},
	})
	if want := map[int]position{1: {function: 2, line: 8, depth: 2}}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestThreadsAreNamedFirst checks that what another thread changed stands below the row that says that it goes on.
func TestThreadsAreNamedFirst(t *testing.T) {
	t.Parallel()
	got := text(t, fixtures(t)["effects"], Options{})
	marker, change := strings.Index(got, "─── thread 1 ───"), strings.Index(got, "↩ thread.start()")
	if marker < 0 || change < marker {
		t.Errorf("got the change of thread 1 at %d, the row that names it at %d of\n%s", change, marker, got)
	}
}

// TestFatalIsWhatEndedTheProgram checks that what is raised after the end of the main thread, by
// other threads and by what atexit calls, is not taken for what ended the program.
func TestFatalIsWhatEndedTheProgram(t *testing.T) {
	t.Parallel()
	raise := func(thread, line int, kind string) trace.Event {
		return trace.Event{Kind: trace.KindException, Thread: thread, Frame: 10*thread + line, Line: line, Exception: &trace.EventException{Type: kind}}
	}
	for name, c := range map[string]struct {
		events []trace.Event
		gaps   []trace.Gap
		want   int
	}{
		"the only one":               {[]trace.Event{raise(1, 3, "KeyError")}, nil, 0},
		"the last of several":        {[]trace.Event{raise(1, 3, "KeyError"), raise(1, 3, "KeyError")}, nil, 1},
		"another thread later":       {[]trace.Event{raise(1, 3, "KeyError"), raise(2, 3, "KeyError")}, nil, 0},
		"atexit later":               {[]trace.Event{raise(1, 3, "KeyError"), raise(1, 9, "OSError")}, nil, 0},
		"none that looks like it":    {[]trace.Event{raise(1, 5, "KeyError"), raise(2, 6, "OSError")}, nil, 0},
		"before a gap":               {[]trace.Event{raise(1, 3, "KeyError"), raise(1, 9, "OSError")}, []trace.Gap{{AfterSeq: 1, Skipped: -1}}, -1},
		"after a gap":                {[]trace.Event{raise(1, 9, "OSError"), raise(1, 3, "KeyError"), raise(1, 9, "OSError")}, []trace.Gap{{AfterSeq: 1, Skipped: -1}}, 1},
		"where nothing was left out": {[]trace.Event{raise(1, 3, "KeyError"), raise(1, 9, "OSError")}, []trace.Gap{{AfterSeq: 1}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range c.events {
				c.events[i].Seq = int64(i + 1)
			}
			r := job.Result{Status: job.StatusException, Exception: &trace.Exception{Type: "KeyError", Line: 3}, Trace: &trace.Trace{Events: c.events, Gaps: c.gaps}}
			if got := fatalEvent(r); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestTextOfRealRuns(t *testing.T) {
	t.Parallel()
	for name, f := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name+".txt", text(t, f, Options{Width: 100, Steps: DefaultSteps}))
		})
	}
}

func TestForms(t *testing.T) {
	t.Parallel()
	all := fixtures(t)
	noSource := all["two_files"]
	noSource.Files = nil
	forms := map[string]struct {
		fixture fixture
		options Options
	}{
		"two_files-color":    {all["two_files"], Options{Width: 80, Color: true}},
		"two_files-narrow":   {all["two_files"], Options{Width: 40}},
		"two_files-pipe":     {all["two_files"], Options{}},
		"two_files-nosource": {noSource, Options{Width: 80}},
		"two_files-short":    {all["two_files"], Options{Width: 80, Steps: 12}},
		"recursion-unfolded": {all["recursion"], Options{Width: 80, Unfolded: true}},
		"hostile-color":      {all["hostile"], Options{Width: 60, Color: true}},
	}
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name+".txt", text(t, form.fixture, form.options))
		})
	}
}

// TestTextIsHarmless checks, for every run and several widths, that nothing but
// text and line ends comes out, and that no line is wider than the terminal.
func TestTextIsHarmless(t *testing.T) {
	t.Parallel()
	for name, f := range fixtures(t) {
		for _, width := range []int{0, 40, 61, 100, 250} {
			for line := range strings.Lines(text(t, f, Options{Width: width})) {
				line = strings.TrimSuffix(line, "\n")
				if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
					t.Errorf("%s, width %d: unprintable at %d of %q", name, width, i, line)
				}
				if width > 0 && columns(line) > width {
					t.Errorf("%s, width %d: %d columns: %q", name, width, columns(line), line)
				}
			}
		}
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	three := 3
	limits := job.DefaultLimits()
	limits.WallMS, limits.CPUMS = 90_000, 1500
	tests := map[string]struct {
		result job.Result
		want   string
	}{
		"ok":         {job.Result{Status: job.StatusOK}, "Finished normally."},
		"exit":       {job.Result{Status: job.StatusExitNonzero, Returncode: &three}, "Exited with code 3."},
		"signal":     {job.Result{Status: job.StatusSignaled, Signal: text("SIGSEGV")}, "Killed by the signal SIGSEGV."},
		"wall":       {job.Result{Status: job.StatusTimeLimit, LimitsHit: []job.LimitName{job.HitWall}, Limits: limits}, "Stopped: it was still running after 1m30s, its time limit."},
		"cpu":        {job.Result{Status: job.StatusTimeLimit, LimitsHit: []job.LimitName{job.HitCPU}, Limits: limits}, "Stopped: it used up its limit of 1.5 s of CPU time."},
		"memory":     {job.Result{Status: job.StatusMemoryLimit, Limits: limits}, "Stopped: it needed more memory than its limit of 256 MiB."},
		"stdout":     {job.Result{Status: job.StatusOutputLimit, LimitsHit: []job.LimitName{job.HitStdout}, Limits: limits}, "Stopped: it wrote more than its limit of 1,000,000 bytes to stdout."},
		"stderr":     {job.Result{Status: job.StatusOutputLimit, LimitsHit: []job.LimitName{job.HitStderr}, Limits: limits}, "Stopped: it wrote more than its limit of 1,000,000 bytes to stderr."},
		"invalid":    {job.Result{Status: job.StatusResultInvalid, Error: text("No END.")}, "The sandbox gave no usable answer; the program may have broken it. No END."},
		"canceled":   {job.Result{Status: job.StatusCanceled, Error: text("By a user.")}, "Canceled. By a user."},
		"rejected":   {job.Result{Status: job.StatusRejected, Error: text("Corrupt.")}, "Refused by the worker. Corrupt."},
		"system":     {job.Result{Status: job.StatusSystemError, Error: text("Engine down.")}, "The fleet failed, not the program. Engine down."},
		"unreadable": {job.Result{Status: job.StatusException}, "Ended by an exception that the tracer could not read."},
		"newer":      {job.Result{Status: "melted"}, "Ended with the status melted."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Verdict(tt.result); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestEmptyResult renders a result with nothing in it: what a job that never ran has.
// TestEmptyProgram checks that there is no heading without steps.
func TestEmptyProgram(t *testing.T) {
	t.Parallel()
	got := text(t, fixture{Files: map[string]string{"main.py": ""}, Result: job.Result{Status: job.StatusOK, Tracer: job.TracerReport{Complete: true}, Trace: &trace.Trace{
		Files:     []trace.File{{ID: 1, Path: "main.py"}},
		Functions: []trace.Function{{ID: 1, Name: "<module>", File: 1, Kind: "module"}},
		Events: []trace.Event{
			{Seq: 1, Kind: trace.KindCall, Func: 1, Frame: 1, Depth: 1, Thread: 1},
			{Seq: 2, Kind: trace.KindReturn, Func: 1, Frame: 1, Line: 1, Depth: 1, Thread: 1},
		},
	}}}, Options{Width: 80})
	if want := "✓ Finished normally.\n  ok\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEmptyResult(t *testing.T) {
	t.Parallel()
	got := text(t, fixture{Result: job.Result{Status: job.StatusCanceled}}, Options{Width: 80})
	if want := "✗ Canceled.\n  canceled\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
