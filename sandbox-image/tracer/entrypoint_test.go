package tracer_test

import (
	"testing"
)

// TestEntrypoints runs files of any name, plainly and traced: the interpreter is started before the name is known.
func TestEntrypoints(t *testing.T) {
	t.Parallel()
	const looks = `
import inspect, os, sys, traceback
import sibling
main = sys.modules["__main__"]
print(sys.argv, sys.orig_argv, sys.path, __file__, main.__spec__, main.__loader__.path, main.__cached__)
print(sys.path_importer_cache, sys.path_hooks)
print(sibling.__file__, os.getcwd(), sorted(sys.path_importer_cache), inspect.getsource(main) == open(__file__).read())
def f():
    raise ValueError(traceback.extract_stack()[-1].filename)
print(f.__code__.co_filename)
f()
`
	programs := map[string]program{}
	for name, p := range map[string]struct{ entrypoint, sibling, source string }{
		"usual":            {"main.py", "sibling.py", looks},
		"other":            {"run.py", "sibling.py", looks},
		"in a folder":      {"some/deep/start.py", "some/deep/sibling.py", looks},
		"any text":         {"gr\u00f6\u00dfe \u4e2d \U0001f40d.py", "sibling.py", looks},
		"no extension":     {"program", "sibling.py", looks},
		"long":             {"a" + nested("b", 200) + ".py", "sibling.py", looks},
		"does not compile": {"broken.py", "sibling.py", "x = (\n"},
		"exits":            {"exits.py", "sibling.py", "import sys\nsys.exit(sys.argv)\n"},
		"forks":            {"forks.py", "sibling.py", "import os, sys\nif os.fork() == 0:\n    print(sys.argv, __file__, flush=True)\n    os._exit(0)\nprint(os.wait()[1])\n"},
		"runs itself":      {"self.py", "sibling.py", "import runpy, sys\nif len(sys.argv) < 5:\n    sys.argv.append('x')\n    runpy.run_path(__file__, run_name='__main__')\nprint(__name__, __file__, sys.argv)\n"},
		"spawns":           {"spawns.py", "sibling.py", "import subprocess, sys\nif 'child' in sys.argv:\n    print(sys.argv, sys.orig_argv, __file__)\nelse:\n    print(subprocess.run([sys.executable, *sys.argv, 'child'], capture_output=True))\n"},
	} {
		q := script("")
		q.Files = map[string]string{p.entrypoint: p.source, p.sibling: "x = 1\n", "main.py.txt": ""}
		q.Entrypoint, q.Args = p.entrypoint, []string{"a b", "-c", ""}
		programs[name] = q
	}
	outcomes := run(t, programs)
	for name, p := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := outcomes[name]
			if diff := sameEnding(o); diff != "" {
				t.Errorf("tracing changed the program (-plain +traced):\n%s", diff)
			}
			if len(o.Plain.Stdout)+len(o.Plain.Stderr) == 0 {
				t.Error("the program said nothing")
			}
			if rec := o.recording(p); name != "does not compile" && rec.Summary.Lines[p.Entrypoint]["1"]+rec.Summary.Lines[p.Entrypoint]["2"] == 0 {
				t.Errorf("got lines of %v, want of %s", rec.Summary.Lines, p.Entrypoint)
			}
		})
	}
}
