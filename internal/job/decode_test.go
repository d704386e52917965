package job_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/job"
)

func decode(document string) (job.Job, error) {
	return job.Decode(strings.NewReader(document), job.MaxLimits())
}

func TestDecodeFillsDefaults(t *testing.T) {
	t.Parallel()
	want := job.Job{
		Language:   "python",
		Entrypoint: "main.py",
		Files:      map[string]string{"main.py": "print(1)\n"},
		Args:       []string{},
		Limits:     job.DefaultLimits(),
		Trace:      job.TraceOptions{Mode: job.TraceFull, Values: true, Include: []string{"."}},
		Queue:      job.QueueDefault,
		Labels:     map[string]string{},
		RetentionS: 86_400,
	}
	for name, document := range map[string]string{
		"files":           `{"files":{"main.py":"print(1)\n"}}`,
		"code":            `{"code":"print(1)\n"}`,
		"code and name":   `{"code":"print(1)\n","entrypoint":"main.py"}`,
		"empty parts":     `{"code":"print(1)\n","args":[],"labels":{},"limits":{},"trace":{},"tenant":"","id":"","name":"","stdin":""}`,
		"include nothing": `{"code":"print(1)\n","trace":{"include":[]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := decode(document)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("job (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeTakesEveryField(t *testing.T) {
	t.Parallel()
	document := `{"language":"python","entrypoint":"pkg/run.py","files":{"pkg/run.py":"\u0000","pkg/a.py":""},
	 "stdin":"\ud83d\ude00","args":["-x",""],
	 "limits":{"wall_ms":1e4,"cpu_ms":5E+3,"memory_bytes":33554432,"output_bytes":1000,"processes":1,"open_files":16,
	           "file_bytes":0,"trace_events":0,"trace_bytes":65536},
	 "trace":{"mode":"calls","values":false,"include":["pkg","pkg/a.py"]},
	 "queue":"batch","tenant":"t-1","id":"a:b.c_d-e","name":"A name é","labels":{"k":"v"},"retention_s":60}`
	want := job.Job{
		Language: "python", Entrypoint: "pkg/run.py", Files: map[string]string{"pkg/run.py": "\x00", "pkg/a.py": ""},
		Stdin: "😀", Args: []string{"-x", ""},
		Limits: job.Limits{
			WallMS: 10_000, CPUMS: 5_000, MemoryBytes: 32 << 20, OutputBytes: 1000,
			Processes: 1, OpenFiles: 16, TraceBytes: 64 << 10,
		},
		Trace: job.TraceOptions{Mode: job.TraceCalls, Include: []string{"pkg", "pkg/a.py"}},
		Queue: job.QueueBatch, Tenant: "t-1", ID: "a:b.c_d-e", Name: "A name é",
		Labels: map[string]string{"k": "v"}, RetentionS: 60,
	}
	got, err := decode(document)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
}

// manyFiles are n members of files.
func manyFiles(n int) string {
	members := make([]string, n)
	for i := range members {
		members[i] = fmt.Sprintf(`"%d.py":""`, i)
	}
	return strings.Join(members, ",")
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	with := func(field string) string { return `{"code":"",` + field + `}` }
	files := func(members string) string { return `{"files":{"main.py":"",` + members + `}}` }
	for _, c := range []struct {
		name, document, want string
	}{
		{"unknown field", with(`"colour":1`), `colour: unknown field`},
		{"case counts", with(`"Stdin":""`), `Stdin: unknown field`},
		{"unknown limit", with(`"limits":{"wall_s":1}`), `limits.wall_s: unknown field`},
		{"unknown trace option", with(`"trace":{"depth":{"a":[1,{}]}}`), `trace.depth: unknown field`},
		{"odd unknown field", with(`"a b":1`), `["a b"]: unknown field`},
		{"twice", with(`"stdin":"a","stdin":"b"`), `stdin: given twice`},
		{"file twice", files(`"a.py":"1","a.py":"2"`), `files["a.py"]: given twice`},
		{"file twice among many", files(manyFiles(40) + `,"7.py":"2"`), `files["7.py"]: given twice`},
		{"limit twice", with(`"limits":{"wall_ms":100,"wall_ms":200}`), `limits.wall_ms: given twice`},
		{"twice by escape", with(`"stdin":"a","std\u0069n":"b"`), `stdin: given twice`},
		{"two documents", `{"code":""} {"code":""}`, `must hold one JSON document and nothing behind it`},
		{"trailing garbage", `{"code":""} x`, `must hold one JSON document and nothing behind it`},
		{"not an object", `[]`, `must be an object, got an array; files: must hold at least one file`},
		{"empty", ``, `not valid JSON at line 1, column 1: unexpected end`},
		{"cut", `{"code":"`, `code: not valid JSON at line 1, column 10: unexpected end`},
		{"comma", `{"code":"",}`, `not valid JSON at line 1, column 12: invalid character '}'`},
		{"byte order mark", "\ufeff{}", `not valid JSON at line 1, column 1: invalid character`},
		{"not UTF-8", "{\"code\":\"\xff\"}", `the document must be UTF-8, byte 9 is not`},
		{"lone surrogate", `{"code":"\ud800"}`, `code: must not hold half of a surrogate pair`},
		{"lone low surrogate", `{"code":"x\udc00"}`, `code: must not hold half of a surrogate pair`},
		{"surrogates the wrong way", with(`"args":["\udc00\ud800"]`), `args[0]: must not hold half of a surrogate pair`},
		{"surrogate in a path", files(`"\ud800":""`), `must not hold half of a surrogate pair`},

		{"NaN", with("\n" + `"limits":{"wall_ms":NaN}`), `limits.wall_ms: not valid JSON at line 2, column 21: invalid character 'N'`},
		{"fraction", with(`"limits":{"wall_ms":1000.5}`), `limits.wall_ms: must be a whole number, got 1000.5`},
		{"fraction of zero", with(`"limits":{"wall_ms":1000.0}`), `limits.wall_ms: must be a whole number, got 1000.0`},
		{"negative exponent", with(`"limits":{"wall_ms":10e-1}`), `limits.wall_ms: must be a whole number, got 10e-1`},
		{"huge", with(`"limits":{"wall_ms":1e400}`), `limits.wall_ms: is out of range, got 1e400`},
		{"huge digits", with(`"limits":{"wall_ms":99999999999999999999}`), `limits.wall_ms: is out of range, got 99999999999999999999`},
		{"string", with(`"limits":{"wall_ms":"1000"}`), `limits.wall_ms: must be a whole number, got a string`},
		{"boolean", with(`"limits":{"wall_ms":true}`), `limits.wall_ms: must be a whole number, got true`},
		{"null limit", with(`"limits":{"wall_ms":null}`), `limits.wall_ms: must be a whole number, got null; leave the field out`},
		{"null string", with(`"stdin":null`), `stdin: must be a string, got null; leave the field out`},
		{"null file", files(`"a.py":null`), `files["a.py"]: must be a string, got null`},
		{"zero limit", with(`"limits":{"wall_ms":0}`), `limits.wall_ms: must be between 100 and 300000, got 0`},
		{"small limit", with(`"limits":{"wall_ms":5}`), `limits.wall_ms: must be between 100 and 300000, got 5`},
		{"large limit", with(`"limits":{"memory_bytes":4294967297}`), `limits.memory_bytes: must be between 33554432 and 4294967296, got 4294967297`},
		{"negative limit", with(`"limits":{"trace_events":-1}`), `limits.trace_events: must be between 0 and 100000, got -1`},

		{"no files", `{}`, `files: must hold at least one file`},
		{"empty files", `{"files":{}}`, `files: must hold at least one file`},
		{"code and files", `{"code":"","files":{"main.py":""}}`, `code: must not be given together with files`},
		{"code and entrypoint", with(`"entrypoint":"app.py"`), `entrypoint: must be main.py, or left out, when code is given`},
		{"entrypoint missing", `{"entrypoint":"app.py","files":{"main.py":""}}`, `entrypoint: must be one of the files, "app.py" is not`},
		{"entrypoint empty", with(`"entrypoint":""`), `entrypoint: must not be empty; leave the field out`},
		{"language", with(`"language":"ruby"`), `language: must be "python", got "ruby"`},
		{"language case", with(`"language":"Python"`), `language: must be "python", got "Python"`},
		{"path escape", files(`"../a.py":""`), `files["../a.py"]: must not have ".." as a part`},
		{"path escape inside", files(`"a/../../b":""`), `must not have ".." as a part`},
		{"path dot", files(`"./a.py":""`), `must not have "." as a part`},
		{"path absolute", files(`"/etc/passwd":""`), `files["/etc/passwd"]: must be relative`},
		{"path empty", files(`"":""`), `files[""]: must not be empty`},
		{"path empty part", files(`"a//b":""`), `must not have an empty part`},
		{"path trailing slash", files(`"a/":""`), `must not have an empty part`},
		{"path NUL", files(`"a\u0000.py":""`), `files["a\x00.py"]: must not hold control characters`},
		{"path newline", files(`"a\nb":""`), `must not hold control characters`},
		{"path backslash", files(`"a\\b.py":""`), `must not hold a backslash`},
		{"path long part", files(`"` + strings.Repeat("a", 256) + `":""`), `must have parts of at most 255 bytes`},
		{"path long", files(`"` + strings.Repeat("a", 1025) + `":""`), `must be at most 1024 bytes`},
		{"path deep", files(`"` + strings.Repeat("a/", 16) + `a":""`), `must be at most 16 folders deep`},
		{"file and folder", files(`"main.py/a":""`), `files["main.py/a"]: main.py cannot be a file and a folder at once`},
		{"files a list", `{"files":["main.py"]}`, `files: must be an object, got an array`},

		{"args not a list", with(`"args":"x"`), `args: must be an array, got a string`},
		{"arg not a string", with(`"args":["a",1]`), `args[1]: must be a string, got a number`},
		{"arg NUL", with(`"args":["a\u0000"]`), `args[0]: must not hold a NUL character`},
		{"many args", with(`"args":[` + strings.Repeat(`"",`, 256) + `""]`), `args: must be at most 256, got 257`},
		{"long args", with(`"args":["` + strings.Repeat("a", 65536) + `"]`), `args: must be at most 65536 bytes in all, got 65537`},
		{"trace mode", with(`"trace":{"mode":"deep"}`), `trace.mode: must be one of full, lines, calls, off, got "deep"`},
		{"trace values", with(`"trace":{"values":"yes"}`), `trace.values: must be true or false, got a string`},
		{"include unknown", with(`"trace":{"include":["lib"]}`), `trace.include[0]: must be a file or a folder of the job`},
		{"include escape", with(`"trace":{"include":["../x"]}`), `trace.include[0]: must not have ".." as a part`},
		{"queue", with(`"queue":"fast"`), `queue: must be one of interactive, default, batch, got "fast"`},
		{"tenant", with(`"tenant":"a/b"`), `tenant: must hold only letters and digits`},
		{"id braces", with(`"id":"a}b"`), `id: must hold only letters and digits`},
		{"id long", with(`"id":"` + strings.Repeat("a", 129) + `"`), `id: must be at most 128 characters, got 129`},
		{"id dash first", with(`"id":"-a"`), `but not begin with . : -`},
		{"id newline", with(`"id":"a\n"`), `id: must hold only letters and digits`},
		{"name newline", with(`"name":"a\nb"`), `name: must hold printable characters only`},
		{"name long", with(`"name":"` + strings.Repeat("é", 201) + `"`), `name: must be at most 200 characters`},
		{"label key", with(`"labels":{"a b":"c"}`), `labels["a b"]: must hold only letters and digits`},
		{"label value", with(`"labels":{"a":"\u001b[2J"}`), `labels["a"]: must hold printable characters only`},
		{"retention", with(`"retention_s":1`), `retention_s: must be between 60 and 2592000, got 1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := decode(c.document)
			var invalid *job.ValidationError
			if !errors.As(err, &invalid) {
				t.Fatalf("got error %v, want a *ValidationError", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
			if strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("the error is not one line: %q", err)
			}
		})
	}
}

func TestDecodeReportsEveryFaultOnce(t *testing.T) {
	t.Parallel()
	_, err := decode(`{"code":5,"limits":{"wall_ms":5,"cpu_ms":"x","nope":1},"trace":{"include":["lib"]},"queue":"","language":null}`)
	want := `invalid job: code: must be a string, got a number; limits.cpu_ms: must be a whole number, got a string; ` +
		`limits.nope: unknown field; queue: must not be empty; leave the field out to get its default; ` +
		`language: must be a string, got null; leave the field out to get its default; ` +
		`limits.wall_ms: must be between 100 and 300000, got 5`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestDecodeBounds(t *testing.T) {
	t.Parallel()
	t.Run("faults are counted, not kept", func(t *testing.T) {
		t.Parallel()
		var b strings.Builder
		b.WriteString(`{"code":""`)
		for i := range 1000 {
			fmt.Fprintf(&b, `,"x%d":%d`, i, i)
		}
		b.WriteString("}")
		_, err := decode(b.String())
		var invalid *job.ValidationError
		if !errors.As(err, &invalid) || len(invalid.Fields) != 50 || invalid.Omitted != 950 {
			t.Errorf("got %v, want 50 faults and 950 omitted", err)
		}
	})
	t.Run("members", func(t *testing.T) {
		t.Parallel()
		var b strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&b, `"x%d":"",`, i)
		}
		for document, want := range map[string]string{
			`{` + b.String() + `"code":""}`:                           "and 4047 more faults",
			`{"args":[` + strings.Repeat(`"",`, 5000) + `""]}`:        "args: has more than 4096 members",
			`{"files":{` + b.String() + `"main.py":""}}`:              "files: has more than 4096 members",
			`{"code":"","x":[` + strings.Repeat("[],", 5000) + `[]]}`: "x: unknown field",
		} {
			if _, err := decode(document); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", shortError(err), want)
			}
		}
	})
	t.Run("document size", func(t *testing.T) {
		t.Parallel()
		_, err := decode(`{"code":"` + strings.Repeat("a", job.MaxDocumentBytes) + `"}`)
		if err == nil || !strings.Contains(err.Error(), "the document must be at most 16777216 bytes") {
			t.Errorf("got %v, want a refusal", err)
		}
	})
	t.Run("nesting", func(t *testing.T) {
		t.Parallel()
		_, err := decode(`{"x":` + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + `}`)
		if err == nil {
			t.Error("a million brackets were accepted")
		}
	})
	t.Run("source exactly at the cap", func(t *testing.T) {
		t.Parallel()
		for size, ok := range map[int]bool{job.MaxSourceBytes: true, job.MaxSourceBytes + 1: false} {
			_, err := decode(`{"code":"` + strings.Repeat(`\u0001`, size) + `"}`)
			if (err == nil) != ok {
				t.Errorf("%d bytes: got error %v", size, err)
			}
		}
	})
	t.Run("stdin exactly at the cap", func(t *testing.T) {
		t.Parallel()
		for size, ok := range map[int]bool{job.MaxStdinBytes: true, job.MaxStdinBytes + 1: false} {
			_, err := decode(`{"code":"","stdin":"` + strings.Repeat("a", size) + `"}`)
			if (err == nil) != ok {
				t.Errorf("%d bytes: got error %v", size, err)
			}
		}
	})
	t.Run("number of files", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"main.py": ""}
		for i := len(files); i < job.MaxFiles; i++ {
			files[fmt.Sprintf("f%d.py", i)] = ""
		}
		j := job.Job{Files: files}.Normalize()
		if err := j.Validate(job.MaxLimits()); err != nil {
			t.Error(err)
		}
		j.Files["one_more.py"] = ""
		if err := j.Validate(job.MaxLimits()); err == nil {
			t.Error("101 files were accepted")
		}
	})
	t.Run("reader fails", func(t *testing.T) {
		t.Parallel()
		broken := errors.New("broken")
		_, err := job.Decode(iotest.ErrReader(broken), job.MaxLimits())
		var invalid *job.ValidationError
		if !errors.Is(err, broken) || errors.As(err, &invalid) {
			t.Errorf("got %v, want the reader's error", err)
		}
	})
}

func TestDecodeUnderLoweredMaxima(t *testing.T) {
	t.Parallel()
	max := job.MaxLimits()
	max.WallMS, max.MemoryBytes = 5_000, 64<<20
	got, err := job.Decode(strings.NewReader(`{"code":""}`), max)
	if err != nil {
		t.Fatal(err)
	}
	if got.Limits.WallMS != 5_000 || got.Limits.MemoryBytes != 64<<20 || got.Limits.CPUMS != 10_000 {
		t.Errorf("got limits %+v, want the defaults brought down to the maxima", got.Limits)
	}
	_, err = job.Decode(strings.NewReader(`{"code":"","limits":{"wall_ms":5001}}`), max)
	if err == nil || !strings.Contains(err.Error(), "limits.wall_ms: must be between 100 and 5000, got 5001") {
		t.Errorf("got %v, want a refusal", err)
	}
}

// FuzzDecode checks that what Decode accepts is complete and valid, and that writing
// it out and reading it back changes nothing.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"code":"print(1)"}`, `{"files":{"a/b.py":""},"entrypoint":"a/b.py","limits":{"wall_ms":1e3}}`,
		`{"code":"\ud83d\ude00","labels":{"a":"b"},"trace":{"mode":"off","include":["main.py"]}}`,
		`{"code":null}`, `{"code":"\ud800"}`, `{`, `[]`, `{"limits":{"wall_ms":NaN}}`, "{\"code\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := job.Decode(strings.NewReader(string(data)), job.MaxLimits())
		if err != nil {
			var invalid *job.ValidationError
			if !errors.As(err, &invalid) || len(invalid.Fields) == 0 {
				t.Fatalf("got error %v, want a *ValidationError with faults", err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatal("accepted what is not JSON")
		}
		if err := j.Validate(job.MaxLimits()); err != nil {
			t.Fatalf("decoded job is not valid: %v", err)
		}
		again, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		back, err := job.Decode(strings.NewReader(string(again)), job.MaxLimits())
		if err != nil {
			t.Fatalf("decode what was encoded: %v", err)
		}
		if diff := cmp.Diff(j, back); diff != "" {
			t.Fatalf("round trip (-want +got):\n%s", diff)
		}
		if j.Digest() != back.Digest() {
			t.Fatal("the digest changed over a round trip")
		}
	})
}

func shortError(err error) string {
	s := fmt.Sprint(err)
	return s[:min(len(s), 200)]
}
