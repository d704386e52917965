package scenario

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// folder makes a scenario folder of the given files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "01_sample")
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestPatient checks that a program gets a minute unless the scenario names a limit on wall time.
func TestPatient(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[string]any{
		`{}`:                             {"wall_ms": 60_000.0},
		`{"limits":{"cpu_ms":500}}`:      {"wall_ms": 60_000.0, "cpu_ms": 500.0},
		`{"limits":{"wall_ms":100}}`:     {"wall_ms": 100.0},
		`{"args":["a"],"limits":{}}`:     {"wall_ms": 60_000.0},
		`{"limits":{"trace_events":60}}`: {"wall_ms": 60_000.0, "trace_events": 60.0},
	} {
		s, err := Load(folder(t, map[string]string{"main.py": "", "want.json": `{"status":"ok"}`, "job.json": text}))
		if err != nil {
			t.Fatal(err)
		}
		if s, err = s.Patient(); err != nil {
			t.Fatal(err)
		}
		document, err := s.Job("id-1")
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Limits map[string]any }
		if err := json.Unmarshal(document, &got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got.Limits); d != "" {
			t.Errorf("%s: limits (-want +got):\n%s", text, d)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"main.py":                "print(1)\r\n",
		"shop/prices.py":         "",
		"shop/__pycache__/x.pyc": "\xff",
		"want.json":              `{"status":"ok"}`,
		"want.runsc.json":        `{"status":"memory_limit"}`,
		"job.json":               `{"stdin":"a\n","limits":{"wall_ms":100},"name":"not kept"}`,
	})
	s, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	document, err := s.Job("id-1")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(document, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"language": "python", "entrypoint": "main.py", "id": "id-1", "name": "01_sample", "stdin": "a\n",
		"limits": map[string]any{"wall_ms": 100.0},
		"files":  map[string]any{"main.py": "print(1)\r\n", "shop/prices.py": ""},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("job (-want +got):\n%s", d)
	}
	if got := s.Under("runsc").Want.Statuses(); !slices.Equal(got, []string{"memory_limit"}) {
		t.Errorf("got statuses %v, want memory_limit", got)
	}
	for runtime, status := range map[string]string{"": "ok", "runc": "ok", "runsc": "memory_limit"} {
		if got := s.Under(runtime).Compare([]byte(`{"status":"` + status + `"}`)); len(got) != 0 {
			t.Errorf("runtime %q: got differences %v, want none", runtime, got)
		}
		if got := s.Under(runtime).Compare([]byte(`{"status":"exception"}`)); len(got) != 1 {
			t.Errorf("runtime %q: got differences %v, want one", runtime, got)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		files  map[string]string
		saying string
	}{
		"no want.json":           {map[string]string{"main.py": ""}, "no want.json"},
		"no program":             {map[string]string{"want.json": `{"status":"ok"}`}, "no program"},
		"a faulty want.json":     {map[string]string{"main.py": "", "want.json": `{"status":"ok","x":1}`}, `want.json: unknown key "x"`},
		"a faulty job.json":      {map[string]string{"main.py": "", "want.json": `{"status":"ok"}`, "job.json": `[]`}, "job.json: not a JSON object"},
		"bytes that are no text": {map[string]string{"main.py": "\xff", "want.json": `{"status":"ok"}`}, "main.py: not UTF-8"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(folder(t, c.files))
			if err == nil || !strings.Contains(err.Error(), c.saying) {
				t.Errorf("got error %v, want one that says %q", err, c.saying)
			}
		})
	}
}

func TestLoadAllReportsEveryFault(t *testing.T) {
	t.Parallel()
	root := filepath.Dir(folder(t, map[string]string{"main.py": ""}))
	if _, err := LoadAll(root); err == nil {
		t.Error("a folder without want.json: got no error")
	}
	if _, err := LoadAll(t.TempDir()); err == nil {
		t.Error("an empty root: got no error")
	}
}

// Every folder in the tree must be readable here, without engine and image.
func TestAllScenariosLoad(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"cases", "attacks"} {
		found, err := LoadAll(filepath.Join("..", "testdata", root))
		if err != nil {
			t.Errorf("%s: %v", root, err)
		}
		t.Logf("%s: %d scenarios", root, len(found))
	}
}
