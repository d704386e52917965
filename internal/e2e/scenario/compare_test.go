package scenario

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample is a result in which every key of want.json has something to look at.
const sample = `{
 "status": "exception", "returncode": 1, "signal": "SIGSEGV", "error": null, "headline": "IndexError: list index out of range",
 "stdout": "eins\nzwei\n", "stderr": "Traceback", "stdout_bytes": 10, "stdout_truncated": false, "encoding": "utf-8",
 "limits_hit": ["wall", "memory"],
 "exception": {"type": "shop.PriceError", "message": "no price for salt", "file": "main.py", "line": 3, "function": "Shop.price",
  "traceback": [{"file": "main.py", "line": 9}, {"file": "json/decoder.py", "line": 70, "library": true}, {"file": "main.py", "line": 3}],
  "cause": {"type": "KeyError", "line": 2}, "context": null,
  "group": [{"type": "ValueError"}, {"type": "shop.PriceError"}]},
 "summary": {"total_calls": 4, "max_recursion_depth": 2, "exceptions_caught": 1,
  "lines": {"main.py": {"1": 1, "3": 4}}, "calls": {"f": 3, "<module>": 1},
  "loops": [{"file": "main.py", "line": 2, "iterations": 4}, {"file": "shop.py", "line": 2, "iterations": 9}]},
 "usage": {"wall_ms": 120, "cpu_ms": 80, "max_memory_bytes": 9000000},
 "tracer": {"trust": "in-process", "complete": true, "detached": false},
 "trace": {
  "files": [{"id": 1, "path": "main.py"}],
  "functions": [{"id": 1, "name": "<module>", "file": 1}, {"id": 2, "name": "Shop.price", "file": 1}],
  "events": [
   {"event": "line", "func": 1, "frame": 1, "line": 1, "vars": {"n": 1, "gone": "x"}},
   {"event": "call", "func": 2, "frame": 2, "line": 2, "vars": {"self": ["REF", 7]}, "heap": {"7": ["INSTANCE", "Shop", ["size", 6], ["next", ["REF", 8]]], "8": ["LIST", 1, 2]}},
   {"event": "exception", "func": 2, "frame": 2, "line": 3, "exception": {"type": "shop.PriceError", "message": "no"}},
   {"event": "unwind", "func": 2, "frame": 2, "line": 3},
   {"event": "return", "func": 1, "frame": 1, "line": 4, "vars": {"gone": ["DEL"], "flag": true, "none": null}, "value": null}
  ]}
}`

func sampleFiles() map[string]string { return map[string]string{"main.py": "", "shop.py": ""} }

// comparisons holds for every key values that fit the sample and values that
// do not. TestEveryKeyCanFail refuses a key without both.
func comparisons() map[string]struct{ fits, differs []string } {
	return map[string]struct{ fits, differs []string }{
		"status":              {[]string{`"exception"`, `["ok","exception"]`}, []string{`"ok"`, `["ok","exit_nonzero"]`}},
		"returncode":          {[]string{`1`}, []string{`true`, `1.0`, `0`, `null`, `"1"`}},
		"stdout":              {[]string{`"eins\nzwei\n"`}, []string{`"eins\n"`, `""`, `null`}},
		"stdout_truncated":    {[]string{`false`}, []string{`true`, `0`, `null`}},
		"stdout_bytes":        {[]string{`10`}, []string{`11`, `"10"`}},
		"encoding":            {[]string{`"utf-8"`}, []string{`"utf-8-lossy"`}},
		"error":               {[]string{`null`}, []string{`""`, `"Code execution timed out after 2s."`}},
		"signal":              {[]string{`11`, `"SIGSEGV"`, `"segv"`, `-11`}, []string{`9`, `null`, `"SIGKILL"`}},
		"stdout_contains":     {[]string{`"zwei"`, `["eins","zwei"]`}, []string{`"drei"`, `["eins","drei"]`}},
		"stderr_contains":     {[]string{`"Trace"`}, []string{`"eins"`}},
		"headline_contains":   {[]string{`["IndexError","range"]`}, []string{`"main.py"`}},
		"stdout_not_contains": {[]string{`"drei"`}, []string{`"zwei"`, `["drei","zwei"]`}},
		"stdout_sha256": {[]string{`"cea7589481795a99cc8b7989cc24706fd26d46cde9fc381d07db562de08b2e18"`},
			[]string{`"` + strings.Repeat("0", 64) + `"`}},
		"stdout_bytes_min": {[]string{`10`, `0`}, []string{`11`}},
		"limits_hit":       {[]string{`["memory"]`, `["memory","wall"]`}, []string{`["cpu"]`, `["wall","cpu"]`}},
		"exception": {
			[]string{`{}`, `{"type":"PriceError"}`, `{"type":"shop.PriceError","message_contains":"salt"}`, `{"line":3,"file":"main.py"}`, `{"function":"price"}`,
				`{"function":"Shop.price"}`, `{"cause_type":"KeyError","context_type":null}`, `{"group_types":["ValueError","PriceError"]}`, `{"traceback_lines":[9,3]}`},
			[]string{`null`, `{"type":"Price"}`, `{"type":"other.PriceError"}`, `{"message_contains":"pepper"}`, `{"line":4}`, `{"file":"shop.py"}`, `{"function":"Shop"}`,
				`{"cause_type":null}`, `{"cause_type":"Key"}`, `{"context_type":"KeyError"}`, `{"group_types":["ValueError"]}`, `{"group_types":[]}`,
				`{"traceback_lines":[9,70,3]}`, `{"traceback_lines":[]}`}},
		"lines": {
			[]string{`{"main.py":{"1":1,"3":4,"2":0}}`, `{"main.py":{"3":{"min":4,"max":5}}}`, `{"shop.py":{"1":0}}`},
			[]string{`{"main.py":{"1":2}}`, `{"main.py":{"2":1}}`, `{"main.py":{"3":0}}`, `{"main.py":{"3":{"min":5}}}`, `{"main.py":{"3":{"max":3}}}`, `{"shop.py":{"1":1}}`}},
		"calls":               {[]string{`{"f":3,"g":0}`, `{"f":{"max":3}}`}, []string{`{"f":2}`, `{"g":1}`, `{"<module>":0}`}},
		"loops":               {[]string{`[{"line":2,"iterations":4}]`, `[{"file":"shop.py","line":2,"iterations":9}]`}, []string{`[{"line":2,"iterations":9}]`, `[{"line":3,"iterations":4}]`, `[{"line":2,"iterations":4},{"line":9,"iterations":0}]`}},
		"total_calls":         {[]string{`4`, `{"min":1}`}, []string{`3`, `{"max":3}`}},
		"max_recursion_depth": {[]string{`2`}, []string{`1`}},
		"exceptions_caught":   {[]string{`1`}, []string{`0`}},
		"usage": {[]string{`{"wall_ms":{"min":100,"max":200},"cpu_ms":80}`}, []string{`{"wall_ms":{"max":100}}`, `{"cpu_ms":{"min":81}}`,
			`{"max_memory_bytes":1}`}},
		"tracer":     {[]string{`{"complete":true,"detached":false}`}, []string{`{"complete":false}`, `{"detached":true}`}},
		"valid_utf8": {[]string{`true`}, nil}, // differs: see TestValidUTF8
		"trace_has": {
			[]string{`[{}]`, `[{"event":"unwind"},{"event":"line","line":1}]`, `[{"func":"Shop.price","file":"main.py","line":3}]`,
				`[{"vars":{"n":1}},{"event":"return","vars":{"n":1,"flag":true,"none":null},"value":null}]`,
				`[{"vars":{"self":{"contains":"\"size\", 6"}}}]`, `[{"vars":{"self":{"contains":"[\"LIST\", 1, 2]"}}}]`,
				`[{"exception_type":"PriceError"}]`, `[{"event":"exception","vars":{"self":{"contains":"Shop"}}}]`},
			[]string{`[{"event":"yield"}]`, `[{"event":"line","line":2}]`, `[{"func":"price"}]`, `[{"file":"shop.py"}]`, `[{"vars":{"n":true}}]`, `[{"vars":{"n":1.0}}]`,
				`[{"event":"return","vars":{"gone":"x"}}]`, `[{"vars":{"never":null}}]`, `[{"vars":{"none":{"contains":"0"}}}]`, `[{"value":7}]`,
				`[{"exception_type":"KeyError"}]`, `[{"event":"call"},{"event":"throw"}]`}},
		"trace_not": {
			[]string{`[{"event":"yield"}]`, `[{"event":"return","vars":{"gone":"x"}}]`, `[{"exception_type":"StopIteration"}]`},
			[]string{`[{}]`, `[{"event":"yield"},{"event":"unwind"}]`, `[{"event":"return","value":null}]`}},
	}
}

func compareSample(t *testing.T, key, value, document string) []Difference {
	t.Helper()
	text := `{"status":"exception","` + key + `":` + value + `}`
	if key == "status" {
		text = `{"status":` + value + `}`
	}
	want, err := ParseWant([]byte(text))
	if err != nil {
		t.Fatalf("ParseWant(%s): %v", text, err)
	}
	return want.Compare(sampleFiles(), []byte(document))
}

func TestEveryKeyCanFail(t *testing.T) {
	t.Parallel()
	table := comparisons()
	if d := cmp.Diff(slices.Sorted(maps.Keys(parsers())), slices.Sorted(maps.Keys(table))); d != "" {
		t.Fatalf("keys without comparisons (-key +compared):\n%s", d)
	}
	for key, c := range table {
		if len(c.fits) == 0 || len(c.differs) == 0 && key != "valid_utf8" {
			t.Errorf("%s: no value that fits, or none that differs", key)
		}
		for _, value := range c.fits {
			t.Run(key+" fits "+value, func(t *testing.T) {
				t.Parallel()
				if got := compareSample(t, key, value, sample); len(got) > 0 {
					t.Errorf("got differences %v, want none", got)
				}
			})
		}
		for _, value := range c.differs {
			t.Run(key+" differs "+value, func(t *testing.T) {
				t.Parallel()
				got := compareSample(t, key, value, sample)
				if len(got) == 0 {
					t.Fatal("got no difference, want one")
				}
				if !strings.HasPrefix(got[0].Key, key) {
					t.Errorf("got difference under %q, want it under %q", got[0].Key, key)
				}
			})
		}
	}
}

// A field that is missing, null or of another kind must never pass for one
// that fits.
func TestBrokenResultDiffers(t *testing.T) {
	t.Parallel()
	fields := map[string]string{
		"stdout_contains": "stdout", "stderr_contains": "stderr", "headline_contains": "headline", "stdout_not_contains": "stdout", "stdout_sha256": "stdout",
		"stdout_bytes_min": "stdout_bytes", "lines": "summary", "calls": "summary", "loops": "summary", "total_calls": "summary",
		"max_recursion_depth": "summary", "exceptions_caught": "summary", "trace_has": "trace", "trace_not": "trace",
	}
	for key, c := range comparisons() {
		if key == "valid_utf8" {
			continue
		}
		field := key
		if of, other := fields[key]; other {
			field = of
		}
		for name, broken := range map[string]func(map[string]any){
			"missing": func(r map[string]any) { delete(r, field) },
			"of another kind": func(r map[string]any) {
				r[field] = map[string]any{"lines": 1, "calls": 1, "loops": 1, "events": 1, "type": 1}
			},
		} {
			t.Run(key+" "+name, func(t *testing.T) {
				t.Parallel()
				var document map[string]any
				if err := json.Unmarshal([]byte(sample), &document); err != nil {
					t.Fatal(err)
				}
				broken(document)
				text, err := json.Marshal(document)
				if err != nil {
					t.Fatal(err)
				}
				if got := compareSample(t, key, c.fits[0], string(text)); len(got) == 0 {
					t.Errorf("%s = %s with %s %s: got no difference, want one", key, c.fits[0], field, name)
				}
			})
		}
	}
}

func TestCompareNotAResult(t *testing.T) {
	t.Parallel()
	want, err := ParseWant([]byte(`{"status":"ok"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range []string{``, `null`, `[]`, `"ok"`, `{"status":"ok"`, `{"status":"ok"}{}`, `{"status":"no","status":"ok"}`} {
		if got := want.Compare(nil, []byte(document)); len(got) == 0 {
			t.Errorf("Compare with %q: got no difference, want one", document)
		}
	}
}

func TestTraceInOrder(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		patterns string
		fits     bool
	}{
		"in the order of the events": {`[{"event":"line"},{"event":"exception"},{"event":"return"}]`, true},
		"the other way round":        {`[{"event":"exception"},{"event":"line"}]`, false},
		"one event for two patterns": {`[{"event":"return"},{"line":4}]`, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, err := ParseWant([]byte(`{"status":"exception","trace_in_order":true,"trace_has":` + c.patterns + `}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := want.Compare(sampleFiles(), []byte(sample)); (len(got) == 0) != c.fits {
				t.Errorf("got differences %v, want none: %t", got, c.fits)
			}
		})
	}
}

func TestNoExceptionAndNoTrace(t *testing.T) {
	t.Parallel()
	document := `{"status":"exception","exception":null,"trace":null}`
	for _, c := range []struct {
		key, value string
		fits       bool
	}{
		{"exception", `null`, true},
		{"exception", `{}`, false},
		{"trace_not", `[{}]`, true},
		{"trace_has", `[{}]`, false},
	} {
		if got := compareSample(t, c.key, c.value, document); (len(got) == 0) != c.fits {
			t.Errorf("%s %s: got differences %v, want none: %t", c.key, c.value, got, c.fits)
		}
	}
}

func TestValidUTF8(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		stdout string
		fits   bool
	}{
		"plain":                      {`grün`, true},
		"escaped pair":               {`\ud83d\ude80`, true},
		"escaped backslash before u": {`\\ud83d`, true},
		"bytes":                      {"\xff", false},
		"half a pair, high":          {`\ud83d`, false},
		"half a pair, low":           {`\ude80`, false},
		"two high halves":            {`\ud83d\ud83d`, false},
		"half before the end":        {`\ud83dx`, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := compareSample(t, "valid_utf8", "true", `{"status":"exception","stdout":"`+c.stdout+`"}`)
			if (len(got) == 0) != c.fits {
				t.Errorf("got differences %v, want none: %t", got, c.fits)
			}
		})
	}
}

func TestDifferencesAreShort(t *testing.T) {
	t.Parallel()
	got := compareSample(t, "stdout", `"`+strings.Repeat("ü", 10_000)+`"`, sample)
	if len(got) != 1 || len(got[0].String()) > 3*shownBytes {
		t.Errorf("got %d differences of %d bytes, want a short one", len(got), len(got[0].String()))
	}
}
