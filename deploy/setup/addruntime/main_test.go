package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAdd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after, said string
		args                []string
	}{
		"no file": {
			"", "{\n  \"runtimes\": {\n    \"runsc\": {\n      \"path\": \"/r\"\n    }\n  }\n}\n", "changed\n", nil,
		},
		"others stay": {
			`{"log-level":"warn","runtimes":{"crun":{"path":"/c"}}}`,
			"{\n  \"log-level\": \"warn\",\n  \"runtimes\": {\n    \"crun\": {\n      \"path\": \"/c\"\n    },\n    \"runsc\": {\n      \"path\": \"/r\",\n      \"runtimeArgs\": [\n        \"--x\"\n      ]\n    }\n  }\n}\n",
			"changed\n", []string{"--x"},
		},
		"there already": {
			`{"runtimes":{"runsc":{"path":"/r"}}}`, `{"runtimes":{"runsc":{"path":"/r"}}}`, "unchanged\n", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "docker", "daemon.json")
			if c.before != "" {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(c.before), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var said bytes.Buffer
			if err := run(append([]string{"-config", path, "runsc", "/r"}, c.args...), &said); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.after, string(got)); diff != "" {
				t.Errorf("file (-want +got):\n%s", diff)
			}
			if said.String() != c.said {
				t.Errorf("got %q, want %q", said.String(), c.said)
			}
		})
	}
}

func TestAddRefuses(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"no JSON": "runtimes", "no object": `[]`, "runtimes of another kind": `{"runtimes":[]}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, _, err := add([]byte(config), "runsc", "/r", nil); err == nil {
				t.Error("got no error")
			}
		})
	}
}
