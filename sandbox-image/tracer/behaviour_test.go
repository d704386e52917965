package tracer_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/trace"
	"github.com/execra/tracefleet/internal/wire"
)

// with changes a program's settings.
func with(source string, change func(*program)) program {
	p := script(source)
	change(&p)
	return p
}

const countTo = `
def work(n):
    total = 0
    for i in range(n):
        total += i
    return total
print(work(5000))
`

// waiting is a program that is killed as it waits in a loop that went over lists before, and its
// check: the line of the loop, and all before it, are recorded.
func waiting(change func(*program)) struct {
	program program
	check   func(t *testing.T, o outcome, rec trace.Recording)
} {
	const source = "import os\ndef read(source):\n    n = 0\n    for line in source:\n        n += 1\n        m = n\n    return n\n" +
		"for i in range(100):\n    read([1, 2])\nr, w = os.pipe()\nos.write(w, b'1\\n2\\n3\\n')\nread(os.fdopen(r))\n"
	return struct {
		program program
		check   func(t *testing.T, o outcome, rec trace.Recording)
	}{with(source, func(p *program) {
		p.Seconds = 2
		change(p)
	}), func(t *testing.T, _ outcome, rec trace.Recording) {
		wantLines(t, rec, map[string]int64{"1": 1, "2": 1, "3": 101, "4": 304, "5": 203, "6": 203, "7": 100, "8": 101, "9": 100, "10": 1, "11": 1, "12": 1})
		if last := rec.Trace.Events[len(rec.Trace.Events)-1]; last.Kind != trace.KindLine || last.Line != 4 {
			t.Errorf("got %+v as the last event, want line 4", last)
		}
	}}
}

// TestBehaviour runs programs whose recording has a property that is easier
// said than shown.
func TestBehaviour(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		program program
		check   func(t *testing.T, o outcome, rec trace.Recording)
	}{
		"everything fits": {script(countTo[:len(countTo)-len("print(work(5000))\n")] + "work(3)\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			wantGaps(t, rec)
			if s := rec.Summary; s.EventsTotal != s.EventsKept || !s.CountsExact || !rec.Complete {
				t.Errorf("got %d of %d events, exact %v, complete %v, want all", s.EventsKept, s.EventsTotal, s.CountsExact, rec.Complete)
			}
		}},
		"event budget": {with(countTo, func(p *program) { p.Events = 50 }), func(t *testing.T, _ outcome, rec trace.Recording) {
			wantGaps(t, rec, trace.Gap{AfterSeq: 50, Skipped: rec.Summary.EventsTotal - rec.Summary.EventsKept, Cause: trace.GapEvents})
			wantTail(t, rec, 50)
			wantLines(t, rec, map[string]int64{"2": 1, "3": 1, "4": 5001, "5": 5000, "6": 1, "7": 1})
			wantHits(t, rec, "trace_events")
		}},
		"no events": {with(countTo, func(p *program) { p.Events = 0 }), func(t *testing.T, _ outcome, rec trace.Recording) {
			if len(rec.Trace.Events) != 0 || rec.Summary.TotalCalls != 2 {
				t.Errorf("got %d events and %d calls, want 0 and 2", len(rec.Trace.Events), rec.Summary.TotalCalls)
			}
		}},
		"exactly the budget": {with("x = 1\n", func(p *program) { p.Events = 3 }), func(t *testing.T, _ outcome, rec trace.Recording) {
			wantGaps(t, rec)
		}},
		"byte budget": {with(countTo, func(p *program) { p.TraceBytes = 64 << 10 }), func(t *testing.T, _ outcome, rec trace.Recording) {
			if len(rec.Trace.Gaps) != 1 || rec.Trace.Gaps[0].Cause != trace.GapBytes || !rec.Trace.Truncation.Bytes {
				t.Errorf("got gaps %v, truncation %+v, want byte_limit", rec.Trace.Gaps, rec.Trace.Truncation)
			}
			wantLines(t, rec, map[string]int64{"2": 1, "3": 1, "4": 5001, "5": 5000, "6": 1, "7": 1})
		}},
		"time is up": {with(countTo, func(p *program) { p.ExactMS = 0 }), func(t *testing.T, o outcome, rec trace.Recording) {
			hits := rec.Summary.Lines["main.py"]["5"]
			if rec.Summary.CountsExact || hits < 1000 || hits >= 5000 || !rec.Complete {
				t.Errorf("got %d hits, exact %v, complete %v, want from 1000 to 5000, not exact, complete", hits, rec.Summary.CountsExact, rec.Complete)
			}
			if len(rec.Trace.Gaps) != 1 || rec.Trace.Gaps[0].Cause != trace.GapTime || rec.Trace.Gaps[0].Skipped != -1 {
				t.Errorf("got gaps %v, want one of unknown length for time", rec.Trace.Gaps)
			}
		}},
		"time is up while lines are passed": {with(strings.Replace(countTo, "5000", "2_000_000", 1), func(p *program) { p.ExactMS = 10 }), func(t *testing.T, _ outcome, rec trace.Recording) {
			for _, line := range []string{"4", "5"} {
				if hits := rec.Summary.Lines["main.py"][line]; hits < 1000 || hits >= 2_000_000 {
					t.Errorf("got %d hits of line %s, want from 1000 to 2,000,000", hits, line)
				}
			}
			if rec.Summary.CountsExact || !rec.Complete {
				t.Errorf("got exact %v, complete %v, want not exact, complete", rec.Summary.CountsExact, rec.Complete)
			}
		}},
		"left where lines are passed": {script("import os\ndef work(n):\n    for i in range(n):\n        x = i\n        y = x\n        if y == 150:\n            os._exit(3)\n        z = y\nwork(200)\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			wantLines(t, rec, map[string]int64{"1": 1, "2": 1, "3": 151, "4": 151, "5": 151, "6": 151, "7": 1, "8": 150, "9": 1})
			if last := rec.Trace.Events[len(rec.Trace.Events)-1]; last.Kind != trace.KindLine || last.Line != 7 {
				t.Errorf("got %+v as the last event, want line 7", last)
			}
		}},
		"operators that change unseen": {script("import pathlib\ndef adds(rounds):\n    l = []\n    class C:\n        __add__ = l.append\n    c = C()\n    for i in range(rounds):\n        x = c + i\n        y = i\nadds(100)\n" +
			"def texts(paths):\n    for p in paths:\n        x = f'{p}'\n        y = x\ntexts([pathlib.PurePosixPath('a') / str(i) for i in range(100)])\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			told := map[int]int{} // of a line: events after which an object has changed
			for _, e := range rec.Trace.Events {
				if e.Kind == trace.KindLine && len(e.Heap) > 0 {
					told[e.Line]++
				}
			}
			if told[9] != 100 || told[14] != 100 {
				t.Errorf("got %d and %d changes by lines 8 and 13, want 100 and 100", told[9], told[14])
			}
		}},
		"entries that were emptied are not all looked through": {script("import collections, functools\nd = collections.OrderedDict.fromkeys(range(5000))\nlist(map(functools.partial(dict.__delitem__, d), range(4999)))\nx = 1\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			var last string // what was told of the dictionary, of which the last entry is left
			for _, e := range rec.Trace.Events {
				for _, object := range e.Heap {
					last = string(object.Value)
				}
			}
			if !strings.Contains(last, `["ELIDED",1]`) {
				t.Errorf("got %s, want one entry that is not shown", last)
			}
		}},
		"killed in a loop that waits":               waiting(func(*program) {}),
		"killed in a loop that waits, lines":        waiting(func(p *program) { p.Mode = "lines" }),
		"killed in a loop that waits, after budget": waiting(func(p *program) { p.Events = 40 }),
		"many exceptions after time is up": {with("def f():\n    raise KeyError\nfor i in range(5000):\n    try:\n        f()\n    except KeyError:\n        pass\nf()\n", func(p *program) { p.ExactMS = 0 }),
			func(t *testing.T, _ outcome, rec trace.Recording) {
				if n := rec.Summary.ExceptionsCaught; n < 1000 || n > 2000 || rec.Exception == nil || rec.Exception.Line != 2 {
					t.Errorf("got %d exceptions and %+v, want over 1000, and the last one reported", n, rec.Exception)
				}
			}},
		"left by os._exit": {script("import os\nx = 1\nos._exit(3)\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			if rec.Ended || rec.Complete || len(rec.Trace.Events) != 4 {
				t.Errorf("got ended %v and %d events, want no end and 4 events", rec.Ended, len(rec.Trace.Events))
			}
		}},
		"exit functions run by the program": {script("import atexit\natexit._run_exitfuncs()\nx = 1\n1/0\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			wantLines(t, rec, map[string]int64{"1": 1, "2": 1, "3": 1, "4": 1})
			if rec.Complete || rec.Exception == nil || rec.Exception.Line != 4 {
				t.Errorf("got complete %v and %+v, want no end and the exception of line 4", rec.Complete, rec.Exception)
			}
		}},
		"causes in a circle": {script("a, b = ValueError('a'), KeyError('b')\na.__cause__, b.__cause__ = b, a\nraise a\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			e := rec.Exception
			if e == nil || e.Type != "ValueError" || e.Cause == nil || e.Cause.Type != "KeyError" || e.Cause.Cause != nil {
				t.Errorf("got %+v, want ValueError caused by KeyError and no more", e)
			}
		}},
		"a class as argument": {script("raise ValueError(int, KeyError)\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			if want := "(<class 'int'>, <class 'KeyError'>)"; rec.Exception == nil || rec.Exception.Message != want {
				t.Errorf("got %+v, want the message %s", rec.Exception, want)
			}
		}},
		"killed": {script("import os, signal\nx = 1\nos.kill(os.getpid(), signal.SIGKILL)\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			if rec.Ended || len(rec.Trace.Events) != 4 {
				t.Errorf("got ended %v and %d events, want no end and 4 events", rec.Ended, len(rec.Trace.Events))
			}
		}},
		"crashed": {script("import ctypes\nx = 1\nctypes.string_at(0)\n"), func(t *testing.T, o outcome, rec trace.Recording) {
			if o.Traced.Returncode != -11 || rec.Ended || len(rec.Trace.Events) != 4 {
				t.Errorf("got %d, ended %v and %d events, want SIGSEGV, no end and 4 events", o.Traced.Returncode, rec.Ended, len(rec.Trace.Events))
			}
		}},
		"forked": {with("import os\nif os.fork() == 0:\n    secret = [1 for _ in range(3)]\n    raise SystemExit(0)\nos.wait()\nparent = 1\n", func(p *program) {}), func(t *testing.T, _ outcome, rec trace.Recording) {
			wantLines(t, rec, map[string]int64{"1": 1, "2": 1, "5": 1, "6": 1})
			wantNote(t, rec, "forked")
			if !rec.Complete || rec.Detached {
				t.Errorf("got complete %v, detached %v, want complete only", rec.Complete, rec.Detached)
			}
		}},
		"child forks": {with("import os\nif os.fork() == 0:\n    os.fork()\n    raise SystemExit(0)\nos.wait()\nparent = 1\n", func(p *program) {}), func(t *testing.T, _ outcome, rec trace.Recording) {
			if !rec.Complete || rec.Detached {
				t.Errorf("got complete %v, detached %v, want complete only", rec.Complete, rec.Detached)
			}
		}},
		"child detaches": {with("import os, sys\nif os.fork() == 0:\n    sys.monitoring.free_tool_id(4)\n    os.fork()\n    raise SystemExit(0)\nos.wait()\nparent = 1\n", func(p *program) {}), func(t *testing.T, _ outcome, rec trace.Recording) {
			if !rec.Complete || rec.Detached {
				t.Errorf("got complete %v, detached %v, want complete only", rec.Complete, rec.Detached)
			}
		}},
		"child fails": {with("import os\nif os.fork() == 0:\n    1/0\nos.wait()\n", func(p *program) {}), func(t *testing.T, _ outcome, rec trace.Recording) {
			if rec.Exception != nil || rec.ExitKind != "exit" {
				t.Errorf("got %+v and %q, want no exception of the child's", rec.Exception, rec.ExitKind)
			}
		}},
		"detached": {script("import sys\nsys.monitoring.free_tool_id(4)\nx = 1\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			if !rec.Detached {
				t.Error("got not detached, want detached")
			}
		}},
		"callback replaced": {script("import sys\nsys.monitoring.register_callback(4, sys.monitoring.events.LINE, None)\nx = 1\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			if !rec.Detached {
				t.Error("got not detached, want detached")
			}
		}},
		"part of the job": {with("import lib.tool\nlib.tool.use()\n", func(p *program) {
			p.Files["lib/tool.py"] = "def use():\n    return 1\n"
			p.Files["lib/__init__.py"] = ""
			p.Include = []string{"lib"}
		}), func(t *testing.T, _ outcome, rec trace.Recording) {
			want := map[string]int64{"lib/__init__.py:<module>": 1, "lib/tool.py:<module>": 1, "lib/tool.py:use": 1}
			if diff := cmp.Diff(want, rec.Summary.Calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		}},
		"failure outside the part": {with("import lib\n1/0\n", func(p *program) {
			p.Files["lib.py"] = "x = 1\n"
			p.Include = []string{"lib.py"}
		}), func(t *testing.T, _ outcome, rec trace.Recording) {
			if rec.Exception == nil || rec.Exception.Type != "ZeroDivisionError" {
				t.Errorf("got exception %+v, want ZeroDivisionError", rec.Exception)
			}
		}},
		"untraced failure": {with("def f():\n    1/0\nf()\n", func(p *program) { p.Mode = "off" }), func(t *testing.T, o outcome, rec trace.Recording) {
			if len(o.Areas[wire.AreaNotes]) > 0 || rec.Trace != nil || rec.Summary != nil || rec.Exception == nil || rec.Exception.Function != "f" || !rec.Complete {
				t.Errorf("got %+v, want an exception in f and nothing else", rec)
			}
		}},
		"too much of one thing": {script(strings.Repeat("eval('1+1')\n", 1) + "for i in range(6000):\n    eval(f'{i}+1')\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			if rec.Summary.Calls["<string>:<module>"] == 0 || rec.Summary.Lines["main.py"]["3"] != 6000 {
				t.Errorf("got calls %v, want evaluated code counted as far as there is room", rec.Summary.Calls)
			}
		}},
		"the same text many times": {script("for i in range(9000):\n    eval('i+1')\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			if got := rec.Summary.Calls["<string>:<module>"]; got != 9000 || len(rec.Trace.Functions) != 2 {
				t.Errorf("got %d calls of %d functions, want 9000 of 2", got, len(rec.Trace.Functions))
			}
		}},
		"a very long literal": {script("table = {\n" + strings.Repeat("    'key': 'value',\n", 16000) + "}\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			if !rec.Complete || rec.Summary.TotalLines < 16000 {
				t.Errorf("got %d lines, complete %v, want 16000 and more", rec.Summary.TotalLines, rec.Complete)
			}
		}},
		"more lines than counters": {script(strings.Repeat("x = 1\n", 70000) + "print('end')\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			wantNote(t, rec, "no room")
			if rec.Summary.CountsExact {
				t.Error("got exact counts, want not exact")
			}
		}},
		"threads in a hurry": {script("import sys, threading\nsys.setswitchinterval(1e-6)\ndef work(n):\n    items = []\n    for i in range(n):\n        items.append(i)\n    return items\nthreads = [threading.Thread(target=work, args=(300,)) for _ in range(8)]\nfor t in threads: t.start()\nfor t in threads: t.join()\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			if !rec.Complete || rec.Summary.Lines["main.py"]["6"] != 2400 || rec.Summary.Calls["work"] != 8 || rec.Summary.MaxRecursionDepth != 1 {
				t.Errorf("got complete %v, %v, depth %d, want 8 calls of 300 turns at depth 1", rec.Complete, rec.Summary.Calls, rec.Summary.MaxRecursionDepth)
			}
		}},
		"another interpreter": {script("import _interpreters as i\ni.destroy(i.create())\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			wantNote(t, rec, "another interpreter")
		}},
		"modules are no effects": {script("import decimal, json.tool, helper\ntry:\n    import nothing\nexcept ImportError:\n    pass\ntry:\n    compile('1+', '<string>', 'exec')\nexcept SyntaxError:\n    pass\n1/0\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			if len(rec.Effects) > 0 || rec.Summary.EffectsTotal != (trace.EffectsTotal{}) {
				t.Errorf("got %+v, %+v, want no effects", rec.Effects, rec.Summary.EffectsTotal)
			}
		}},
		"effects with made-up names": {script("import os\nos.system('<no such command>')\nfor do in os.mkdir, os.rmdir, lambda p: open(p, 'w').close(), os.remove:\n    do('<name>')\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			var got []string
			for _, e := range rec.Effects {
				got = append(got, e.Action+" "+e.Name)
			}
			want := []string{"shell <no such command>", "mkdir <name>", "rmdir <name>", "write <name>", "remove <name>"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
		}},
		"effects beyond their bound": {script("for i in range(300):\n    try: open('/' + 'x' * 300 + str(i % 150))\n    except OSError: pass\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			if n := len(rec.Effects); n != 1 || rec.Summary.EffectsTotal.File != 300 {
				t.Errorf("got %d effects of %d, want names cut to one of 300", n, rec.Summary.EffectsTotal.File)
			}
		}},
		"effects of many kinds": {script("import os, socket\nfor i in range(300):\n    try: open(str(i))\n    except OSError: pass\n    try: socket.socket(socket.AF_INET6).connect(('::1', 1000 + i))\n    except OSError: pass\n    try: os.execv('/' + str(i), ['x'])\n    except OSError: pass\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			if want := (trace.EffectsTotal{File: 300, Socket: 600, Process: 300}); len(rec.Effects) != 150 || rec.Summary.EffectsTotal != want {
				t.Errorf("got %d effects of %+v, want 50 of each of %+v", len(rec.Effects), rec.Summary.EffectsTotal, want)
			}
		}},
		"exceptions of a killed program": {with("import os\ntry: {}[1]\nexcept KeyError: pass\ntry: [][1]\nexcept IndexError: os._exit(1)\n", func(p *program) { p.Events = 0 }), func(t *testing.T, _ outcome, rec trace.Recording) {
			caught := true
			want := []trace.Raised{
				{Number: 1, Type: "KeyError", Message: "1", File: "main.py", Line: 2, Function: "<module>", Thread: 1, Caught: &caught, Seq: 3},
				{Number: 2, Type: "IndexError", Message: "list index out of range", File: "main.py", Line: 4, Function: "<module>", Thread: 1, Seq: 6},
			}
			if diff := cmp.Diff(want, rec.Summary.Exceptions); diff != "" {
				t.Errorf("exceptions (-want +got):\n%s", diff)
			}
		}},
		"exceptions after time is up": {with("def f(i):\n    raise KeyError(i)\nfor i in range(5000):\n    try:\n        f(i)\n    except KeyError:\n        pass\nraise ValueError('last')\n", func(p *program) { p.ExactMS = 0 }), func(t *testing.T, _ outcome, rec trace.Recording) {
			all := rec.Summary.Exceptions
			if len(all) != 100 || all[0].Message != "0" || all[49].Message != "49" || all[99].Message != "last" || all[99].Caught == nil || *all[99].Caught {
				t.Errorf("got %d exceptions, %+v, want the first 50 and the last, which was not caught", len(all), all)
			}
		}},
		"long and odd exceptions": {script("class E" + strings.Repeat("é", 300) + "(Exception): pass\ntry: raise E" + strings.Repeat("é", 300) + "('漢' * 5000)\nexcept Exception: pass\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			if all := rec.Summary.Exceptions; len(all) != 1 || !strings.HasPrefix(all[0].Type, "Eé") || !strings.HasPrefix(all[0].Message, "漢漢") || strings.ContainsRune(all[0].Type+all[0].Message, '\ufffd') {
				t.Errorf("got %+v, want type and message cut between characters", all)
			}
		}},
		"threads that fail": {script("import threading, sys, _thread\ndef f(n): raise ValueError(n)\nclass Own(threading.Thread):\n    def run(self): f('own')\nthreading.excepthook = lambda a: None\nfor t in (threading.Thread(target=f, args=(1,)), Own(), threading.Thread(target=sys.exit), threading.Thread(target=lambda: None)):\n    t.start(); t.join()\nfrom concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(1) as pool: pool.submit(f, 2)\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			want := []trace.ThreadException{
				{Thread: 2, Type: "ValueError", Message: "1", File: "main.py", Line: 2, Function: "f"},
				{Thread: 3, Type: "ValueError", Message: "own", File: "main.py", Line: 2, Function: "f"},
			}
			if diff := cmp.Diff(want, rec.Summary.ThreadExceptions); diff != "" || rec.Summary.ThreadExceptionsTotal != 2 {
				t.Errorf("thread exceptions, %d in all (-want +got):\n%s", rec.Summary.ThreadExceptionsTotal, diff)
			}
		}},
		"warnings": {script("import warnings, datetime\nwarnings.simplefilter('ignore')\nfor _ in range(4): warnings.warn('w')\nwarnings.simplefilter('always')\nwarnings.warn('w')\ndatetime.datetime.utcnow()\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			if rec.Summary.Warnings != 6 {
				t.Errorf("got %d warnings, want 6: five of the program, one shown of the interpreter", rec.Summary.Warnings)
			}
		}},
		"input ends": {script("import sys\ntry:\n    input()\nexcept EOFError:\n    pass\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			if !rec.StdinExhausted {
				t.Error("got input left, want exhausted")
			}
		}},
		"too many files": {script("files = []\ntry:\n    while True:\n        files.append(open('main.py'))\nexcept OSError:\n    pass\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			wantHits(t, rec, "open_files")
		}},
		"a full disk": {script("try:\n    for i in range(40):\n        open(f'/tmp/{i}', 'wb').write(bytes(2**20))\nexcept OSError:\n    pass\nimport os\nfor f in os.listdir('/tmp'): os.remove('/tmp/' + f)\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			wantHits(t, rec, "disk")
		}},
		"a file too large": {script("try:\n    f = open('/tmp/x', 'wb', buffering=0)\n    f.seek(2**24)\n    f.write(b'x')\nexcept OSError:\n    pass\nf.close()\nimport os\nos.remove('/tmp/x')\n"), func(t *testing.T, _ outcome, rec trace.Recording) {
			wantHits(t, rec, "file_size")
		}},
	}
	programs := map[string]program{}
	for name, c := range cases {
		programs[strings.ReplaceAll(name, " ", "_")] = c.program
	}
	outcomes := run(t, programs)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := outcomes[strings.ReplaceAll(name, " ", "_")]
			if diff := sameEnding(o); diff != "" {
				t.Errorf("tracing changed the program (-plain +traced):\n%s", diff)
			}
			cases[name].check(t, o, o.recording(cases[name].program))
		})
	}
}

func wantGaps(t *testing.T, rec trace.Recording, want ...trace.Gap) {
	t.Helper()
	if diff := cmp.Diff(append([]trace.Gap{}, want...), rec.Trace.Gaps); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
}

// wantTail wants events after the gap behind the event with the given number, up
// to the program's end, of which the first repeats what its frame shows.
func wantTail(t *testing.T, rec trace.Recording, after int64) {
	t.Helper()
	events := rec.Trace.Events[after:]
	if len(events) < 2 || len(events[0].Vars) == 0 {
		t.Fatalf("got %d events after the gap, want some, and variables on the first: %+v", len(events), events[:min(1, len(events))])
	}
	if last := events[len(events)-1]; last.Kind != trace.KindReturn || last.Depth != 1 {
		t.Errorf("got %+v as the last event, want the program's return", last)
	}
	const most = 200 + 5 // a line that was passed has no values: then it is one of the next few
	unseen := 0
	for i, e := range events {
		if e.Seq != events[0].Seq+int64(i) {
			t.Fatalf("got event %d at %d after the gap, want no holes", e.Seq, i)
		}
		unseen++
		if !e.Unseen {
			unseen = 0
		}
		if unseen > most {
			t.Fatalf("got %d events without values up to %d, want at most %d", unseen, e.Seq, most)
		}
	}
}

func wantLines(t *testing.T, rec trace.Recording, want map[string]int64) {
	t.Helper()
	if diff := cmp.Diff(want, rec.Summary.Lines["main.py"]); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func wantHits(t *testing.T, rec trace.Recording, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, rec.Hits); diff != "" {
		t.Errorf("limits hit (-want +got):\n%s", diff)
	}
}

func wantNote(t *testing.T, rec trace.Recording, part string) {
	t.Helper()
	if !slices.ContainsFunc(rec.Notes, func(note string) bool { return strings.Contains(note, part) }) {
		t.Errorf("got notes %q, want one with %q", rec.Notes, part)
	}
}
