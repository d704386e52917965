package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Every rule for a job: what breaks it is refused at submit with exit code 4
// and the field's name on one line of stderr, and nothing of it is stored.
func TestBadJobsAreRefused(t *testing.T) {
	f := newFleet(t)
	bad := map[string]struct{ document, field string }{
		"not JSON":                 {`{"code":`, "JSON"},
		"not an object":            {`["print(1)"]`, "object"},
		"two documents":            {`{"code":"1"}{"code":"2"}`, "document"},
		"not UTF-8":                {"{\"code\":\"\xff\"}", "UTF-8"},
		"half a surrogate pair":    {`{"code":"\ud800"}`, "code"},
		"no program":               {`{}`, "files"},
		"program twice":            {`{"code":"1","files":{"main.py":"1"}}`, "code"},
		"an unknown field":         {`{"code":"1","priority":9}`, "priority"},
		"a field in capitals":      {`{"Code":"1"}`, "Code"},
		"a field twice":            {`{"code":"1","code":"2"}`, "code"},
		"an unknown limit":         {`{"code":"1","limits":{"wall":1}}`, "limits.wall"},
		"an unknown trace option":  {`{"code":"1","trace":{"depth":1}}`, "trace.depth"},
		"another language":         {`{"code":"1","language":"ruby"}`, "language"},
		"an entrypoint not there":  {`{"files":{"main.py":"1"},"entrypoint":"other.py"}`, "entrypoint"},
		"no files":                 {`{"files":{}}`, "files"},
		"files that are a list":    {`{"files":["main.py"]}`, "files"},
		"a file that is a number":  {`{"files":{"main.py":1}}`, `main.py`},
		"an absolute path":         {`{"files":{"main.py":"1","/etc/passwd":""}}`, "/etc/passwd"},
		"a path that climbs":       {`{"files":{"main.py":"1","a/../../b.py":""}}`, "a/../../b.py"},
		"a path with NUL":          {`{"files":{"main.py":"1","a\u0000b":""}}`, "files"},
		"an empty path":            {`{"files":{"main.py":"1","":""}}`, "files"},
		"a file that is a folder":  {`{"files":{"main.py":"1","main.py/x":""}}`, "main.py"},
		"too many files":           {tooManyFiles(), "files"},
		"too much source":          {`{"code":"` + strings.Repeat("#", 1<<20+1) + `"}`, "files"},
		"too much stdin":           {`{"code":"1","stdin":"` + strings.Repeat("x", 1<<20+1) + `"}`, "stdin"},
		"args that are a text":     {`{"code":"1","args":"-v"}`, "args"},
		"an argument with NUL":     {`{"code":"1","args":["a\u0000"]}`, "args[0]"},
		"a mode that is not there": {`{"code":"1","trace":{"mode":"some"}}`, "trace.mode"},
		"values that are a text":   {`{"code":"1","trace":{"values":"yes"}}`, "trace.values"},
		"an include that climbs":   {`{"code":"1","trace":{"include":["../x"]}}`, "trace.include[0]"},
		"another queue":            {`{"code":"1","queue":"urgent"}`, "queue"},
		"an id with a space":       {`{"code":"1","id":"a b"}`, "id"},
		"an id that is a pattern":  {`{"code":"1","id":"*"}`, "id"},
		"an id that is too long":   {`{"code":"1","id":"` + strings.Repeat("a", 129) + `"}`, "id"},
		"a tenant with a brace":    {`{"code":"1","tenant":"a}b"}`, "tenant"},
		"a name of two lines":      {`{"code":"1","name":"a\nb"}`, "name"},
		"a label that is a number": {`{"code":"1","labels":{"team":1}}`, "labels"},
		"a retention of a second":  {`{"code":"1","retention_s":1}`, "retention_s"},
		"code that is null":        {`{"code":null}`, "code"},
		"limits that are null":     {`{"code":"1","limits":null}`, "limits"},
	}
	for limit, bounds := range map[string][2]int64{
		"wall_ms": {100, 300_000}, "cpu_ms": {100, 300_000}, "memory_bytes": {32 << 20, 4 << 30}, "output_bytes": {1_000, 16_000_000},
		"processes": {1, 512}, "open_files": {16, 1024}, "file_bytes": {0, 256 << 20}, "trace_events": {0, 100_000}, "trace_bytes": {64 << 10, 64 << 20},
	} {
		values := []string{fmt.Sprint(bounds[0] - 1), "-1", fmt.Sprint(bounds[1] + 1), "1000.5", `"1000"`, "NaN", "true", "null", "99999999999999999999"}
		for _, value := range values {
			field := "limits." + limit
			if value == "NaN" {
				field = "" // no JSON at all: the place in the document is what can be named
			}
			bad[limit+" of "+value] = struct{ document, field string }{fmt.Sprintf(`{"code":"1","limits":{"%s":%s}}`, limit, value), field}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := f.enqueuer(t, bad[name].document, "submit", "--job", "-")
			if got.code != 4 || got.stdout != "" {
				t.Errorf("got exit code %d, stdout %q, want 4 and nothing", got.code, got.stdout)
			}
			if !strings.Contains(got.stderr, bad[name].field) || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("got stderr %q, want one line that names %q", got.stderr, bad[name].field)
			}
		})
	}
	t.Cleanup(func() { // after the parallel subtests, while Redis still runs
		if keys := f.keys(t, "*"); len(keys) > 0 {
			t.Errorf("got keys %v after nothing but refused jobs, want none", keys)
		}
	})
}

func tooManyFiles() string {
	files := map[string]string{"main.py": "1"}
	for i := range 100 {
		files[fmt.Sprintf("m%d.py", i)] = ""
	}
	// Texts of ASCII can always be encoded.
	document, _ := json.Marshal(map[string]any{"files": files})
	return string(document)
}
