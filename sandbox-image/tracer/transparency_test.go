package tracer_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestTransparency runs programs that look for a difference, plainly and
// traced: what they print and how they end must be the same.
func TestTransparency(t *testing.T) {
	t.Parallel()
	programs := map[string]program{}
	for name, source := range map[string]string{
		"interpreter": `
import sys
print(sorted(sys.modules), sys.path, sys.flags, sys.argv, sys.orig_argv, sys._xoptions, sys.warnoptions)
print(sys.executable, sys.prefix, sys.dont_write_bytecode, sorted(sys.path_importer_cache), sys.meta_path, sys.path_hooks)
print(sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__, sys.unraisablehook is sys.__unraisablehook__)
print(sys.gettrace(), sys.getprofile(), sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits())`,
		"site": `
import site
print(sorted(vars(site)), site.execsitecustomize, site.execusercustomize)
print(site.execsitecustomize.__code__.co_filename, site.execusercustomize.__globals__ is vars(site))`,
		"streams": `
import sys
for stream in (sys.stdin, sys.stdout, sys.stderr):
    print(stream, stream.errors, stream.newlines, type(stream.buffer), type(stream.buffer.raw), stream.fileno(), stream.isatty())
print(sys.stdout is sys.__stdout__, sys.stderr.line_buffering)`,
		"process": `
import os, resource, signal
print(sorted(os.environ.items()), os.getcwd(), sorted(os.listdir("/proc/self/fd"), key=int), os.umask(0o22))
print([resource.getrlimit(getattr(resource, n)) for n in ("RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_CORE", "RLIMIT_STACK", "RLIMIT_AS")])
print([signal.getsignal(s) for s in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM)])`,
		"main_module": `
import sys
main = sys.modules["__main__"]
print({k: v for k, v in vars(main).items() if k not in ("__loader__", "main", "sys")}, main.__loader__.name, main.__loader__.path)
x: int = 1
print(__annotations__, exit, quit, copyright.__class__)`,
		"frames": `
import sys, traceback, inspect
def inner():
    frame, names = sys._getframe(), []
    while frame:
        names.append((frame.f_code.co_name, frame.f_lineno)); frame = frame.f_back
    return names
print(inner(), len(inspect.stack()))
try:
    [].pop()
except IndexError:
    traceback.print_exc()
    print(len(traceback.extract_stack()))`,
		"recursion": `
import sys
def depth(n=0):
    try:
        return depth(n + 1)
    except RecursionError:
        return n
def plain(n):
    return plain(n + 1)
print(depth(), sys.getrecursionlimit())
sys.setrecursionlimit(300)
print(depth(), sys.getrecursionlimit())
for bad in (0, -1, "x", 2**40, 1.5):
    try:
        sys.setrecursionlimit(bad)
    except Exception as error:
        print(type(error).__name__, error)
try:
    plain(0)
except RecursionError as error:
    n, tb = 0, error.__traceback__
    while tb:
        n, last, tb = n + 1, tb, tb.tb_next
    print(n, last.tb_lineno, last.tb_frame.f_code.co_name, error, error.__context__)
plain(0)`,
		"recursion_in_library": `
import copy, json
deep = []
for _ in range(5000):
    deep = [deep]
for action in (copy.deepcopy, json.dumps, repr):
    try:
        action(deep)
    except RecursionError as error:
        print(action.__name__, str(error)[:30])`,
		"signal_in_wording": `
import signal
class Late(Exception): pass
class Odd(Exception):
    def __init__(self, *parts): super().__init__(*parts)
def stop(number, frame):
    names.add(frame.f_code.co_filename)
    raise Late
signal.signal(signal.SIGALRM, stop)
names, stopped = set(), 0
for _ in range(200):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        while True:
            try: raise Odd([1, 2, {"a": [1, 2]}], {"x": (1, 2, 3)})
            except Odd: pass
    except Late: stopped += 1
print(stopped, names)`,
		"thrown_in_wording": `
import ctypes, threading, time
class Stop(Exception): pass
class Odd(Exception):
    def __init__(self, *parts): super().__init__(*parts)
def work():
    try:
        while True:
            try: raise Odd([1, 2, {"a": [1, 2]}], {"x": (1, 2, 3)})
            except Odd: pass
    except Stop: stopped.append(1)
stopped = []
for _ in range(100):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    time.sleep(0.001)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Stop))
    thread.join(10)
print(len(stopped))`,
		"signal_in_callback": `
import signal, traceback
def stop(number, frame):
    raise TimeoutError("stop")
signal.signal(signal.SIGALRM, stop)
for _ in range(5):
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        while True: pass
    except TimeoutError:
        text = traceback.format_exc()
        print(text.count("File "), "tracefleet" in text)`,
		"finalizers": `
import gc, weakref
class Thing:
    def __init__(self, name): self.name = name
    def __del__(self): print("del", self.name)
def work():
    a = Thing("a")
    b = [Thing("b")]
    a = None
    print("between")
    b.clear()
    print("after")
    return Thing("returned")
work()
t = Thing("t")
r = weakref.ref(t)
del t
print(r())
c = Thing("c"); c.self = c
del c
print(gc.collect() > 0)
last = Thing("at the end")`,
		"finalizers_at_the_end": `
import os, sys, json, collections
class Thing:
    def __init__(self, name): self.name = name
    def __del__(self): print("del", self.name)
def keeps_the_namespace(): return known
known, cycle = Thing("name"), Thing("cycle")
cycle.self = cycle
os.thing, json.thing, collections.OrderedDict.thing = Thing("module"), Thing("new module"), []
def default(x=Thing("default")): yield x
running = default()
print(next(running).name)`,
		"collector": `
import gc
print(gc.get_count()[1:], gc.get_stats()[2], gc.get_threshold(), gc.isenabled(), gc.get_debug(), gc.callbacks)
print(gc.is_tracked(globals()), any(namespace is globals() for namespace in gc.get_objects()))`,
		"refcounts": `
import sys
x = object()
print(sys.getrefcount(x))
def f(y):
    return sys.getrefcount(y)
print(f(object()))
s = "a" * 100
for _ in range(10):
    s += "b"
print(len(s))`,
		"shadowing": `
import builtins, json
builtins.len = lambda x: 7
builtins.id = builtins.isinstance = builtins.type = None
json.dumps = None
def f(a): return [a]
print(f([1, 2]))`,
		"audit_hook_sees_own_events": `
import sys
seen = []
sys.addaudithook(lambda event, args: seen.append(event) if event == "open" else None)
open("main.py").close()
print(seen)`,
		"audit_hook_sees_nothing_else": `
import sys, os, threading, warnings
class Odd: pass
class Fails:
    def __del__(self): raise KeyError("del")
def fail(): raise ValueError([1, {}], Odd())
import traceback, linecache, tokenize
sys.addaudithook(lambda event, args: os.write(1, (event + " " + str(len(args)) + "\n").encode()))
try: fail()
except ValueError: pass
try: raise OSError(Odd(), Odd())
except OSError: pass
thread = threading.Thread(target=fail); thread.start(); thread.join()
warnings.warn("w")
if os.fork() == 0: sys.exit(3)
os.wait()
Fails()
fail()`,
		"tool_in_a_forked_child": `
import os, sys
if os.fork() == 0:
    m = sys.monitoring
    m.free_tool_id(4); m.use_tool_id(4, "theirs")
    m.register_callback(4, m.events.PY_START, lambda code, at: os.write(1, (code.co_name + "\n").encode()))
    m.set_events(4, m.events.PY_START)
    if os.fork(): os.wait()
    def called(): pass
    called()
    os._exit(0)
os.wait()`,
		"audit_hook_refuses": `
import sys
def refuse(event, args):
    if event == "open": raise PermissionError("no " + str(args[0]))
sys.addaudithook(refuse)
try: open("main.py")
except PermissionError as error: print(error)`,
		"audited_oddities": `
import sys
class Text(str):
    def __str__(self): print("asked"); return "x"
for arguments in (("open",), ("open", 1, 2, 3, 4), ("socket.connect", 1, ()), ("socket.connect", 1, (Text("a"), 2**80, 3)),
                  ("subprocess.Popen",), ("subprocess.Popen", None, [], None, None), ("subprocess.Popen", "x", [Text("a"), 1, "b" * 500], None, None),
                  ("os.rename", "a"), ("sys.unraisablehook", 1, (1, 2, 3)), ("sys.unraisablehook",), ("",), ("o",), ("s",), ("sys.u",), ("c",),
                  ("open", "\ud800é漢" * 300, "w", 0), ("open", b"\xff", "w", 0), ("open", "x" * 10000, None, -1), ("socket.__new__", 1, 2**70, 1, 1)):
    print(sys.audit(*arguments))`,
		"warnings_all": `
import warnings, _warnings, sys
print(warnings.warn is _warnings.warn, warnings.warn, warnings.warn.__name__, warnings.warn.__text_signature__)
warnings.simplefilter("always")
def deep(): warnings.warn("deep", DeprecationWarning, stacklevel=2)
deep()
with warnings.catch_warnings(record=True) as caught:
    warnings.warn("one"); warnings.warn_explicit("two", UserWarning, "f", 3)
    print([(str(w.message), w.filename, w.lineno) for w in caught])
warnings.simplefilter("error")
try: deep()
except DeprecationWarning as error:
    print(error.__traceback__.tb_next.tb_lineno, error.__traceback__.tb_next.tb_next)
try: warnings.warn()
except TypeError as error: print(error)`,
		"hooks":          "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__, a[1])\nimport atexit\natexit.register(print, 'bye')\n1/0",
		"exit_none":      "import sys\nsys.exit()",
		"exit_text":      "import sys\nsys.exit('words')",
		"exit_list":      "import sys\nsys.exit([1, 2])",
		"exit_negative":  "raise SystemExit(-1)",
		"exit_big":       "raise SystemExit(2**40)",
		"exit_subclass":  "class E(SystemExit): pass\nraise E(4)",
		"interrupt":      "print('x')\nraise KeyboardInterrupt",
		"abort":          "import os\nprint('x', flush=True)\nos.abort()",
		"closed_stdout":  "import sys, os\nprint('x', flush=True)\nos.close(1)\nsys.stdout.write('y')",
		"stdout_gone":    "import sys\nsys.stdout = None\nprint('x')",
		"encoding_error": "print('\\ud83d')",
		"bad_stderr":     "import sys\nsys.stderr.write('\\ud83d\\n')",
		"empty":          "",
		"comment":        "# nothing",
		"no_newline":     "print(1)",
		"nul":            "print(1)\nx = '\x00'\n",
		"bom":            "\ufeffprint('é')\n",
		"latin_cookie":   "# -*- coding: latin-1 -*-\nprint(len('é'))\n",
		"bad_cookie":     "# -*- coding: nope -*-\nprint(1)\n",
		"tabs":           "if 1:\n\tprint(1)\n        print(2)\n",
		"deep_source":    "x = " + nested("(", 5000) + "1" + nested(")", 5000),
		"deep_binary":    "x = " + nested("-", 60000) + "1",
		"future":         "from __future__ import annotations\nx: undefined = 1\nprint(__annotations__)",
		"warning":        "import warnings\nwarnings.warn('w')\nx = 1 is 1\nassert (1, 'x')\n'\\d'",
		"class_name":     "class E(Exception): pass\nraise E('x')",
		"notes":          "e = ValueError('x'); e.add_note('a note')\nraise e",
		"group":          "raise ExceptionGroup('g', [ValueError(1), ExceptionGroup('h', [KeyError(2)])])",
		"chained":        "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e",
		"name_hint":      "import os\nprnt(1)",
		"attribute_hint": "import os\nos.getcwdd()",
		"multi_line":     "def f(*a): return a[9]\nf(1,\n  2,\n  f(\n    3))",
		"subinterpreter": "import _interpreters as i\ns = i.create()\ni.run_string(s, 'print(40 + 2)')\ni.destroy(s)",
		"profile":        "import cProfile, io, pstats\np = cProfile.Profile()\np.enable(); sum(x for x in range(3)); p.disable()\nprint(sorted(n[2] for n in pstats.Stats(p, stream=io.StringIO()).stats))",
		"monitoring":     "import sys\nm = sys.monitoring\nm.use_tool_id(m.PROFILER_ID, 'mine')\nn = []\nm.register_callback(m.PROFILER_ID, m.events.PY_START, lambda c, o: n.append(c.co_name))\nm.set_events(m.PROFILER_ID, m.events.PY_START)\ndef f(): pass\nf(); f()\nm.set_events(m.PROFILER_ID, 0)\nprint(n)",
		"debugger":       "import io, pdb, sys\ndef f():\n    x = 1\n    pdb.Pdb(stdin=io.StringIO('n\\ns\\np x\\nn\\nw\\nc\\n'), stdout=sys.stdout).set_trace()\n    y = 2\n    z = [x, y]\n    return z\nf()\nfor i in range(70): z = i\npdb.Pdb(stdin=io.StringIO('n\\nc\\n'), stdout=sys.stdout).set_trace()\nz = 3\nx = 1",
		"opcodes":        "import sys\nseen = []\ndef t(frame, event, arg):\n    seen.append((event, frame.f_code.co_name, frame.f_lasti))\n    frame.f_trace_opcodes = frame.f_code.co_name != 'h'\n    return t\ndef g():\n    frame = sys._getframe(1)\n    frame.f_trace_opcodes, frame.f_trace = True, t\n    sys.settrace(t)\ndef h(n):\n    return n + 1\ndef f(n):\n    g()\n    y = [i for i in range(n)]\n    sys.settrace(None)\n    return h(y[-1])\nf(2); f(3)\nsys.settrace(t); h(1); f(1); sys.settrace(None)\nprint(len(seen), seen)",
		"audit":          "import sys\ndef ask():\n    for args in (5,), (), ('x',), ('\\ud800',), (b'x', 1), ('a\\0b', 2):\n        try: print(sys.audit(*args))\n        except Exception as error: print(type(error), error)\nask()\nsys.addaudithook(lambda name, args: print(name, args) if name[:1] in 'xa' else None)\nask()\nprint(sys.audit, sys.audit.__doc__)",
		"wake_signal":    "import os\nfor i in range(1_000_000): pass\nprint('on', flush=True)\nos.kill(os.getpid(), 32)\nfor i in range(1_000_000): pass\nprint('off')",
		"pickle_main":    "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)",
		"spawn":          "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'import sys; print(sorted(sys.modules) == sorted(sys.modules), len(sys.modules), sys._xoptions)'], capture_output=True, text=True))",
	} {
		programs[name] = script(source)
		// Exact counting is over at once, and bursts come one after the other.
		programs[name+" in bursts"] = with(source, func(p *program) { p.ExactMS, p.BurstMS = 0, 1 })
	}
	outcomes := run(t, programs)
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := sameEnding(outcomes[name]); diff != "" {
				t.Errorf("tracing changed the program (-plain +traced):\n%s", diff)
			}
		})
	}
}

func nested(what string, times int) string {
	text := make([]byte, 0, times*len(what))
	for range times {
		text = append(text, what...)
	}
	return string(text)
}

// TestCustomizedSite adds modules to the image that customize every interpreter: they do so with the tracer as well.
func TestCustomizedSite(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sitecustomize", "usercustomize"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), name+".py")
			if err := os.WriteFile(file, []byte("import builtins\nbuiltins.customized = __name__\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			got := runWith(t, []string{"-v", file + ":/usr/lib/python3/dist-packages/" + name + ".py:ro"}, map[string]program{
				"program": script("import sys\nprint(customized, customized in sys.modules)"),
			})["program"]
			if want := name + " True\n"; string(got.Plain.Stdout) != want || string(got.Traced.Stdout) != want {
				t.Errorf("got %q plainly, %q traced, stderr %q, want %q", got.Plain.Stdout, got.Traced.Stdout, got.Traced.Stderr, want)
			}
		})
	}
}
