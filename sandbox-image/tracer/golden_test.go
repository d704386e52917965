package tracer_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/trace"
)

// recordings holds, for each program of testdata/programs, what the tracer
// wrote (NAME.areas.json, which package trace's own tests decode) and what that
// says (NAME.golden.json).
const recordings = "../../internal/trace/testdata/recordings"

var update = flag.Bool("update", false, "write the recordings anew")

// TestRecordings runs the programs of testdata/programs and compares what they
// recorded with the goldens, times left out.
func TestRecordings(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("testdata/programs/*.py")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	programs := map[string]program{}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		programs[strings.TrimSuffix(filepath.Base(source), ".py")] = script(string(text))
	}
	for name, o := range run(t, programs) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := sameEnding(o); diff != "" {
				t.Errorf("tracing changed the program (-plain +traced):\n%s", diff)
			}
			got := document(t, o.recording(programs[name]))
			golden := filepath.Join(recordings, name+".golden.json")
			if *update {
				save(t, golden, got)
				save(t, filepath.Join(recordings, name+".areas.json"), mustMarshal(t, map[string]any{"source": programs[name].Files["main.py"], "areas": o.Areas}))
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("recording (-golden +got):\n%s", diff)
			}
		})
	}
}

// threadIDs are what the system calls threads: different in every run.
var threadIDs = regexp.MustCompile(`"(_ident|_native_id)",\d+`)

// document is a recording as JSON, one event a line, without times.
func document(t *testing.T, rec trace.Recording) []byte {
	t.Helper()
	var events []json.RawMessage
	for _, e := range rec.Trace.Events {
		e.T = 0
		events = append(events, mustMarshal(t, e))
	}
	rec.Trace.Events = nil
	var out bytes.Buffer
	for _, part := range []any{rec.Trace.Functions, rec.Summary, rec.Effects, rec.Exception, rec.Notes, rec.ExitKind} {
		if err := json.Indent(&out, mustMarshal(t, part), "", " "); err != nil {
			t.Fatal(err)
		}
		out.WriteByte('\n')
	}
	for _, e := range events {
		out.Write(threadIDs.ReplaceAll(e, []byte(`"$1",0`)))
		out.WriteByte('\n')
	}
	return out.Bytes()
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(out.Bytes())
}

func save(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
