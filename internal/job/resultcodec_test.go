package job_test

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/trace"
)

var update = flag.Bool("update", false, "write the golden files anew")

func ptr[T any](v T) *T { return &v }

// fullResult has something in every field.
func fullResult() job.Result {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	return job.Result{
		Schema: job.ResultSchema, ID: "job-1", Status: job.StatusException,
		Headline: "IndexError: list index out of range (main.py:3 in <module>)",
		Error:    nil, Returncode: ptr(1), LimitsHit: []job.LimitName{job.HitMemory, job.HitTraceEvents},
		Stdout: "1\n<2>\n", Stderr: "Traceback …\n", StdoutBytes: 6, StderrBytes: 120, StderrTruncated: true,
		Encoding: job.EncodingUTF8Lossy,
		Exception: &trace.Exception{
			Type: "IndexError", Message: "list index out of range", File: "main.py", Line: 3, Function: "<module>",
			Traceback: []trace.TracebackFrame{{File: "main.py", Line: 3, Function: "<module>", Source: "    print(nums[i])"}},
			Cause:     &trace.Exception{Type: "ValueError", Column: ptr(4)},
			Group:     []*trace.Exception{{Type: "KeyError"}},
		},
		Summary: &trace.Summary{
			TotalCalls: 1, TotalLines: 9, ExceptionsCaught: 1, MaxRecursionDepth: 1, ExecutionPath: []string{"<module>"},
			Lines: map[string]map[string]int64{"main.py": {"1": 1, "2": 4}}, Calls: map[string]int64{"<module>": 1},
			Edges: []trace.Edge{{Caller: "<module>", Callee: "f", Count: 2}}, Loops: []trace.Loop{{File: "main.py", Line: 2, Iterations: 4}},
			EventsTotal: 12, EventsKept: 1, CountsExact: true,
			Exceptions:       []trace.Raised{{Number: 1, Type: "IndexError", Message: "m", File: "main.py", Line: 3, Function: "<module>", Thread: 1, Caught: ptr(false), Seq: 9}},
			ThreadExceptions: []trace.ThreadException{{Thread: 2, Type: "KeyError", File: "main.py", Line: 2, Function: "f"}}, ThreadExceptionsTotal: 3,
			Warnings: 4, Unraisable: 5, EffectsTotal: trace.EffectsTotal{File: 6, Socket: 7, Process: 8},
		},
		Effects: []trace.Effect{{
			Kind: trace.EffectSocket, Action: "connect", Name: "10.0.0.1:80", Family: "AF_INET", Error: ptr("ENETUNREACH"), Times: 2, Failures: 1,
			File: "main.py", Line: 2, Function: "f", Thread: 1, Seq: 4,
		}},
		Usage:   job.Usage{WallMS: 15, CPUMS: 12, MaxMemoryBytes: 9 << 20, MaxProcesses: 2, QueueMS: 3, StartupMS: 1},
		Limits:  job.DefaultLimits(),
		Runtime: job.Runtime{Language: "python", Version: "3.13.5", Image: "sha256:00", Engine: "docker", OCIRuntime: "runc"},
		Trace: &trace.Trace{
			Schema: trace.Schema, Producer: trace.Producer{Tracer: "t/1", Python: "3.13.5", Trust: job.TrustInProcess},
			Files:     []trace.File{{ID: 0, Path: "main.py", Lines: 3}},
			Functions: []trace.Function{{ID: 0, Name: "<module>", Line: 1, Kind: "module"}},
			Events:    []trace.Event{{Seq: 1, Kind: trace.KindLine, Line: 1, T: 5}},
			Gaps:      []trace.Gap{{AfterSeq: 1, Skipped: 11, Cause: "event_limit"}},
		},
		Tracer:     job.TracerReport{Trust: job.TrustInProcess, Complete: true, Notes: []string{"a note"}},
		Worker:     "w-1",
		Attempt:    2,
		EnqueuedAt: at, StartedAt: ptr(at.Add(3 * time.Millisecond)), FinishedAt: at.Add(20 * time.Millisecond),
	}
}

func TestResultGolden(t *testing.T) {
	t.Parallel()
	data, err := job.EncodeResult(fullResult())
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/result.json"
	if *update {
		if err := os.WriteFile(golden, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(data)+"\n"); diff != "" {
		t.Errorf("result document (-want +got):\n%s", diff)
	}
	back, err := job.DecodeResult(data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := job.EncodeResult(back)
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != string(data) {
		t.Errorf("got another document after a round trip:\n%s", cmp.Diff(string(data), string(again)))
	}
}

// Readers index into lists without asking whether they are there.
func TestResultListsAreNeverNull(t *testing.T) {
	t.Parallel()
	r := job.Result{
		Exception: &trace.Exception{Group: []*trace.Exception{{}}}, Summary: &trace.Summary{},
		Trace: &trace.Trace{Functions: []trace.Function{{}}},
	}
	data, err := job.EncodeResult(r)
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	nullable := map[string]bool{
		"error": true, "returncode": true, "signal": true, "started_at": true, "column": true, "cause": true, "context": true,
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, item := range v {
				if item == nil && !nullable[key] {
					t.Errorf("%s.%s is null", path, key)
				}
				walk(path+"."+key, item)
			}
		case []any:
			for _, item := range v {
				walk(path+"[]", item)
			}
		}
	}
	walk("", document)
}

func TestDecodeResultRefuses(t *testing.T) {
	t.Parallel()
	good, err := job.EncodeResult(fullResult())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"schema":   {`tracefleet.result/1`, `tracefleet.result/2`, "schema: must be"},
		"status":   {`"status":"exception"`, `"status":"fine"`, `status: unknown "fine"`},
		"id":       {`"id":"job-1"`, `"id":""`, "id: not the id of a job"},
		"encoding": {`utf-8-lossy`, `latin-1`, "encoding: unknown"},
		"limit":    {`"memory"`, `"patience"`, `limits_hit: unknown "patience"`},
		"type":     {`"attempt":2`, `"attempt":"2"`, "cannot unmarshal"},
		"two":      {`"attempt":2`, `"attempt":2}{"a":1`, "more than one document"},
		"cut":      {`"finished_at"`, ``, "decode result"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := strings.Replace(string(good), c.old, c.new, 1)
			if bad == string(good) {
				t.Fatal("the document was not changed")
			}
			if name == "two" {
				bad = string(good) + string(good)
			}
			if _, err := job.DecodeResult([]byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	newer := strings.Replace(string(good), `"worker"`, `"added_later":{"a":1},"worker"`, 1)
	if _, err := job.DecodeResult([]byte(newer)); err != nil {
		t.Errorf("a field added later: %v", err)
	}
}

func FuzzDecodeResult(f *testing.F) {
	good, err := job.EncodeResult(fullResult())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := job.DecodeResult(data)
		if err != nil {
			return
		}
		if !r.Status.Valid() {
			t.Fatalf("accepted status %q", r.Status)
		}
		if _, err := job.EncodeResult(r); err != nil {
			t.Fatalf("cannot encode what was decoded: %v", err)
		}
	})
}
