package archtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/archtest"
)

func TestTracefleetKeepsItsRules(t *testing.T) {
	t.Parallel()
	root := "../.."
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(string(mod), "\n"); first != "module "+archtest.Module {
		t.Fatalf("go.mod begins with %q, want module %s", first, archtest.Module)
	}
	tree, err := archtest.Load(os.DirFS(root), archtest.Module)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range archtest.Check(tree, archtest.Tracefleet()) {
		t.Error(v)
	}
}

// fixtureRules are small rules over a made-up module.
func fixtureRules() archtest.Rules {
	return archtest.Rules{
		Layers: []archtest.Layer{
			{Name: "low", Packages: []string{"a", "b"}, Ordered: true, StandardOnly: true, Reason: "R1"},
			{Name: "mid", Packages: []string{"x", "y"}, Reason: "R2"},
			{Name: "top", Packages: []string{"cmd", "helper"}, Reason: "R3"},
		},
		OnlyIn:      []archtest.OnlyIn{{Path: "example.com/lib", Packages: []string{"x"}, Reason: "R4"}, {Path: "example.com/ok", Packages: []string{"x"}, Tests: true, Reason: "R5"}},
		Closures:    []archtest.Closure{{Command: "cmd", Never: []string{"x", "example.com/lib"}, Reason: "R6"}},
		TestHelpers: []string{"helper"},
		Calls: []archtest.Call{
			{Names: []string{"CopyToContainer"}, Reason: "R7"},
			{Package: "os", Names: []string{"Exit"}, Files: archtest.LibraryFiles, Reason: "R8"},
			{Package: "time", Names: []string{"Sleep"}, Files: archtest.TestFiles, Unless: "testing/synctest", Reason: "R9"},
			{Package: "context", Names: []string{"Background"}, Files: archtest.LibraryFiles, Except: []string{"b"}, Reason: "R10"},
		},
		MaxFileLines: 30,
		MaxFuncLines: 10,
	}
}

func TestRulesFindViolations(t *testing.T) {
	t.Parallel()
	a := "// Package a is.\npackage a\n"
	x := "// Package x is.\npackage x\n"
	cmd := "// Command cmd is.\npackage main\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"clean", map[string]string{
			"a/a.go": a, "b/b.go": "// Package b is.\npackage b\nimport (\"context\"; \"m/a\")\nfunc f() { context.Background() }\n",
			"x/x.go": x + "import (\"m/b\"; _ \"example.com/lib/v2\")\n", "x/x_test.go": "package x\nimport \"m/helper\"\n",
			"cmd/main.go":      cmd + "import (\"m/a\"; \"os\")\nfunc main() { os.Exit(1) }\n",
			"helper/h.go":      "// Package helper is.\npackage helper\nimport \"testing\"\n",
			"a/testdata/no.go": "not Go", "a/_x.go": "not Go", ".git/x.go": "not Go",
		}, nil},
		{"upwards", map[string]string{"a/a.go": a + "import \"m/x\"\n", "x/x.go": x}, []string{"a/a.go:3: layers: a imports x, which stands above it"}},
		{"upwards from a test", map[string]string{"a/a.go": a, "a/a_test.go": "package a_test\nimport \"m/x\"\n", "x/x.go": x}, []string{"a/a_test.go:2: layers"}},
		{"sibling", map[string]string{"x/x.go": x + "import \"m/y\"\n", "y/y.go": "// Package y is.\npackage y\n"}, []string{"x/x.go:3: layers: x imports its sibling y: R2"}},
		{"sibling in a test", map[string]string{"x/x_test.go": "package x\nimport \"m/y\"\n", "y/y.go": "// Package y is.\npackage y\n"}, nil},
		{"against the order", map[string]string{"a/a.go": a + "import \"m/b\"\n", "b/b.go": "// Package b is.\npackage b\n"}, []string{"a/a.go:3: layers: a imports its sibling b: R1"}},
		{"not standard", map[string]string{"a/a.go": a + "import \"example.com/other\"\n"}, []string{"a/a.go:3: layers: a imports example.com/other, but the low use the standard library only: R1"}},
		{"no place", map[string]string{"new/n.go": "// Package n is.\npackage n\n"}, []string{"new/n.go:0: layers: new has no place"}},
		{"only in", map[string]string{"y/y.go": "// Package y is.\npackage y\nimport z \"example.com/lib\"\n"}, []string{"y/y.go:3: only-in: example.com/lib is for x only: R4"}},
		{"only in, tests too", map[string]string{"y/y.go": "// Package y is.\npackage y\n", "y/y_test.go": "package y\nimport (\"example.com/lib\"; \"example.com/ok\")\n"}, []string{"y/y_test.go:2: only-in: example.com/lib"}},
		{"a similar path", map[string]string{"y/y.go": "// Package y is.\npackage y\nimport \"example.com/library\"\n"}, nil},
		{"closure", map[string]string{"cmd/main.go": cmd + "import \"m/y\"\n", "y/y.go": "// Package y is.\npackage y\nimport \"m/a\"\n", "a/a.go": a + "import \"m/x\"\n", "x/x.go": x},
			[]string{"a/a.go:0: closure: cmd reaches x through this file: R6", "a/a.go:3: layers"}},
		{"testing", map[string]string{"x/x.go": x + "import (\n\"testing/fstest\"\n\"m/helper\"\n\"go.uber.org/goleak\"\n)\n", "helper/h.go": "// Package helper is.\npackage helper\n"},
			[]string{"x/x.go:4: testing: shipped code imports testing/fstest", "x/x.go:5: layers", "x/x.go:5: testing", "x/x.go:6: testing"}},
		{"method", map[string]string{"x/x.go": x + "func f() { c().CopyToContainer(1) }\n"}, []string{"x/x.go:3: calls: .CopyToContainer: R7"}},
		{"function", map[string]string{"x/x.go": x + "import o \"os\"\nfunc f() { o.Exit(1) }\nvar _ = os.Exit\n"}, []string{"x/x.go:4: calls: os.Exit: R8"}},
		{"function as a value", map[string]string{"x/x.go": x + "import \"context\"\nfunc f() { g(context.Background) }\n"}, []string{"x/x.go:4: calls: context.Background: R10"}},
		{"sleep in a test", map[string]string{"x/x.go": x + "import \"time\"\nfunc f() { time.Sleep(1) }\n", "x/x_test.go": "package x\nimport \"time\"\nfunc f() { time.Sleep(1) }\n"}, []string{"x/x_test.go:3: calls: time.Sleep: R9"}},
		{"sleep in a synctest package", map[string]string{"x/a_test.go": "package x\nimport \"testing/synctest\"\n", "x/x_test.go": "package x\nimport \"time\"\nfunc f() { time.Sleep(1) }\n"}, nil},
		{"long file", map[string]string{"x/x.go": x + strings.Repeat("\n", 40)}, []string{"x/x.go:0: size: 42 lines"}},
		{"long function", map[string]string{"x/x.go": x + "func f() {" + strings.Repeat("\n", 11) + "}\n"}, []string{"x/x.go:3: size: f has 12 lines"}},
		{"no package comment", map[string]string{"x/x.go": "package x\n"}, []string{"x/x.go:0: documented: package x has 0 package comments"}},
		{"two package comments", map[string]string{"x/x.go": x, "x/y.go": x}, []string{"x/y.go:0: documented: package x has 2"}},
		{"odd package comment", map[string]string{"x/x.go": "// This is x.\npackage x\n"}, []string{`x/x.go:2: documented: the package comment does not begin with "Package x "`}},
		{"undocumented", map[string]string{"x/x.go": x + "func F() {}\ntype T interface {\n\tM()\n}\nconst C = 1\nfunc (t) G() {}\nfunc (*T[K]) H() {}\n"},
			[]string{"x/x.go:3: documented: F", "x/x.go:4: documented: T", "x/x.go:5: documented: T.M", "x/x.go:7: documented: C", "x/x.go:9: documented: H"}},
		{"tables", map[string]string{"x/x.go": x + "var read = []int{1}\nvar Public = []int{1}\nvar set = []int{1}\nvar grown = map[int]int{}\nvar shared = T{}\n", "x/y.go": "package x\nfunc f() { set[0].y = 1; grown[1]++; g(&shared) }\n"},
			[]string{"x/x.go:4: documented: Public", "x/x.go:4: state: package-level variable Public", "x/x.go:5: state: package-level variable set", "x/x.go:6: state: package-level variable grown", "x/x.go:7: state: package-level variable shared"}},
		{"state", map[string]string{"x/x.go": x + "import (\"errors\"; \"sync\")\nvar errX = errors.New(\"x\")\nvar mu sync.Mutex\nvar n, m = 1, errors.New(\"y\")\nvar _ I = T{}\nvar ErrX = errors.ErrUnsupported // X\n//go:embed x\nvar data []byte\nfunc init() {}\n"},
			[]string{"x/x.go:5: state: package-level variable mu", "x/x.go:6: state: package-level variable n", "x/x.go:11: state: init"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fsys := fstest.MapFS{}
			for name, src := range c.files {
				fsys[name] = &fstest.MapFile{Data: []byte(src)}
			}
			tree, err := archtest.Load(fsys, "m")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range archtest.Check(tree, fixtureRules()) {
				got = append(got, v.String())
			}
			if len(got) != len(c.want) {
				t.Fatalf("violations (-want +got):\n%s", cmp.Diff(c.want, got))
			}
			for i := range got {
				if !strings.HasPrefix(got[i], c.want[i]) {
					t.Errorf("violations (-want +got):\n%s", cmp.Diff(c.want, got))
				}
			}
		})
	}
}

// The rules that matter most for safety are tried with the module's own table.
func TestTracefleetRulesBite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, src, want string
	}{
		"asynq in the runner":       {"internal/runner/r.go", "import \"github.com/hibiken/asynq\"", "only-in: github.com/hibiken/asynq"},
		"docker in the ledger":      {"internal/ledger/l.go", "import \"github.com/docker/docker/client\"", "only-in: github.com/docker/docker/client"},
		"ledger imports queue":      {"internal/ledger/l.go", "import \"github.com/execra/tracefleet/internal/queue\"", "layers: internal/ledger imports its sibling internal/queue"},
		"job imports ledger":        {"internal/job/j.go", "import \"github.com/execra/tracefleet/internal/ledger\"", "which stands above it"},
		"enqueuer reaches docker":   {"enqueuer/e.go", "import \"github.com/execra/tracefleet/internal/sandbox/docker\"", "closure: enqueuer reaches internal/sandbox/docker"},
		"supervisor serves HTTP":    {"sandbox-image/supervisor/s.go", "import \"net/http\"", "closure: sandbox-image/supervisor reaches net/http"},
		"archive API":               {"internal/sandbox/docker/d.go", "func f(c client) { c.CopyFromContainer() }", "calls: .CopyFromContainer"},
		"background in the runner":  {"internal/runner/r.go", "import \"context\"\nfunc f() { context.Background() }", "calls: context.Background"},
		"skipped test":              {"internal/job/j_test.go", "func f(t T) { t.Skip() }", "calls: .Skip"},
		"sleeping test":             {"internal/job/j_test.go", "import \"time\"\nfunc f() { time.Sleep(1) }", "calls: time.Sleep"},
		"printing library":          {"internal/job/j.go", "import \"fmt\"\nfunc f() { fmt.Println() }", "calls: fmt.Println"},
		"library ends the process":  {"internal/job/j.go", "import \"os\"\nfunc f() { os.Exit(1) }", "calls: os.Exit"},
		"fake sandbox in a command": {"worker/w.go", "import \"github.com/execra/tracefleet/internal/sandbox/fake\"", "testing: shipped code imports internal/sandbox/fake"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fsys := fstest.MapFS{c.file: &fstest.MapFile{Data: []byte("package p\n" + c.src + "\n")}}
			tree, err := archtest.Load(fsys, archtest.Module)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range archtest.Check(tree, archtest.Tracefleet()) {
				if strings.Contains(v.String(), c.want) {
					return
				}
			}
			t.Errorf("nothing was found, want %s", c.want)
		})
	}
}
