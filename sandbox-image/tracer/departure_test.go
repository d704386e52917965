package tracer_test

import (
	"maps"
	"slices"
	"testing"
)

// TestDeparture runs programs for which it matters that the interpreter is taken to pieces at its end, and some
// for which it does not, plainly and traced: what they print and how they end must be the same.
func TestDeparture(t *testing.T) {
	t.Parallel()
	programs := map[string]string{
		"nothing left":                       "print(1)",
		"no line end":                        "import sys\nsys.stdout.write('no line end'); sys.stderr.write('nor here')",
		"bytes":                              "import sys\nsys.stdout.buffer.write(b'bytes')",
		"exit status":                        "import sys\nsys.exit(3)",
		"exit by name":                       "exit(4)",
		"exit in a call":                     "def f():\n    raise SystemExit(5)\nf()",
		"exit without":                       "import sys\nsys.exit()",
		"exception":                          "1 / 0",
		"an exit handler":                    "import atexit, sys\natexit.register(print, 'handler'); atexit.register(lambda: sys.exit(6))\nprint('main')",
		"a class":                            "class A:\n    def __del__(self): print('del')\na = A()",
		"a class without a collected object": "class A:\n    __slots__ = ()\n    def __del__(self): print('del')\na = A()",
		"in a frozen object": `
import os
class A:
    def __del__(self, write=os.write): write(1, b"del")
os.kept = A()`,
		"frozen by the program": "import gc, os\nclass A:\n    def __del__(self, write=os.write): write(1, b'del')\na = A(); gc.freeze()",
		"another interpreter, frozen": `
import gc, _interpreters
_interpreters.exec(_interpreters.create(), "class A:\n    def __del__(self):\n        import os; os.write(1, b'del')\na = A()")
gc.freeze()`,
		"a class of the interpreter's": "import os\nos._Environ.__del__ = lambda self, write=os.write: write(1, b'del')",
		"a weak reference":             "import os, weakref\nf = lambda: 0\nr = weakref.ref(f, lambda _, write=os.write: write(1, b'dead'))",
		"a generator":                  "def g():\n    try:\n        yield\n    finally:\n        print('finally')\nx = g(); next(x)",
		"a coroutine":                  "async def c(): pass\nx = c()",
		"a file":                       "import os\nf = open('out.txt', 'w'); f.write('text')\nif os.fork() == 0:\n    os._exit(0)",
		"another stdout":               "import sys\nsys.__stdout__.write('first'); sys.stdout = sys.stderr\nprint('second')",
		"a closed stdout":              "import sys\nprint('before'); sys.stdout.close()",
		"a closed descriptor":          "import os, sys\nsys.stdout.write('lost'); os.close(1)",
		"a late word":                  "import sys\nclass A:\n    def __del__(self, out=sys.__stdout__): out.write('late')\na = A(); sys.stdout = sys.stderr",
		"no stdout":                    "import sys\nprint('before'); sys.stdout = None",
		"a flush of its own": `
import sys, os
flush, count = sys.stdout.flush, []
def mine():
    count.append(1); os.write(1, b"%d" % len(count)); flush()
sys.stdout.flush = mine`,
		"an audit hook":      "import os, sys\nsys.addaudithook(lambda event, _, write=os.write: event.startswith('cpython') and write(1, event.encode()))",
		"a collector's hook": "import gc, os\ngc.callbacks.append(lambda phase, _, write=os.write: write(1, phase.encode()))",
		"a thread": `
import _thread, os, time
lock = _thread.allocate_lock(); lock.acquire()
def run():
    lock.release()
    while True: time.sleep(60)
_thread.start_new_thread(run, ())
lock.acquire(); print("main")`,
		"a fork":     "import os\npid = os.fork()\nprint('child' if pid == 0 else os.waitpid(pid, 0)[1], flush=True)",
		"a profiler": "import sys\nsys.setprofile(lambda frame, event, _: print(event, frame.f_code.co_name))\nlen([])",
		"a debugger": "import sys\ndef trace(frame, event, _):\n    print(event, frame.f_code.co_name)\n    return trace\nsys.settrace(trace)\ndef f(): pass\nf()",
		"another tool": `
import sys
m = sys.monitoring
m.use_tool_id(2, "mine")
m.register_callback(2, m.events.PY_START, lambda code, _: print("start", code.co_name))
m.set_events(2, m.events.PY_START)`,
		"a profiler over a fork": `
import os, sys
parent = os.getpid()
def profile(frame, event, _):
    if os.getpid() != parent:
        os.write(1, f"{event} {frame.f_code.co_name}\n".encode())
sys.setprofile(profile)
if pid := os.fork():
    sys.setprofile(None)
    os.waitpid(pid, 0)
else:
    os._exit(0)`,
		"no handlers":  "import atexit\natexit._clear()\nprint(1)",
		"handlers run": "import atexit\natexit._run_exitfuncs()\nprint(1)",
	}
	list := map[string]program{}
	for name, source := range programs {
		list[name] = script(source)
	}
	// Those whose interpreter tells the supervisor not to wait for it.
	leave := []string{"nothing left", "no line end", "bytes", "an exit handler", "a fork", "a profiler", "a debugger", "another tool", "a profiler over a fork"}
	outcomes := run(t, list)
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := sameEnding(outcomes[name]); diff != "" {
				t.Errorf("tracing changed the program (-plain +traced):\n%s", diff)
			}
			if got, want := outcomes[name].Traced.Farewell, slices.Contains(leave, name); got != want {
				t.Errorf("farewell: got %v, want %v", got, want)
			}
		})
	}
}
