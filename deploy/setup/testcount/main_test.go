package main

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCounter(t *testing.T) {
	t.Parallel()
	const pkg = "github.com/execra/tracefleet/p"
	ev := func(action, test string) string {
		return `{"Action":"` + action + `","Package":"` + pkg + `","Test":"` + test + `","Output":"` + action + " of " + test + `\n"}` + "\n"
	}
	whole := func(action string) string {
		return `{"Action":"` + action + `","Package":"` + pkg + `","Elapsed":1.5}` + "\n"
	}
	tests := map[string]struct {
		stream string
		ci     bool
		want   string
		fails  bool
	}{
		"all passed": {ev("run", "A") + ev("output", "A") + ev("pass", "A") + whole("pass"), true,
			"ok   p: 1 tests, 1.5 s\n1 passed, 0 failed, 0 skipped\n", false},
		"subtests count, their parent does not": {
			ev("run", "A") + ev("run", "A/x") + ev("run", "A/y") + ev("pass", "A/x") + ev("pass", "A/y") + ev("pass", "A") + whole("pass"), true,
			"ok   p: 2 tests, 1.5 s\n2 passed, 0 failed, 0 skipped\n", false},
		"a failing subtest counts once": {
			ev("run", "A") + ev("run", "A/x") + ev("output", "A/x") + ev("fail", "A/x") + ev("fail", "A") + whole("fail"), false,
			"output of A/x\nFAIL p: 1 tests, 1.5 s\n0 passed, 1 failed, 0 skipped\n", true},
		"a parent that fails by itself": {
			ev("run", "A") + ev("run", "A/x") + ev("pass", "A/x") + ev("fail", "A") + whole("fail"), false,
			"FAIL p: 2 tests, 1.5 s\n1 passed, 1 failed, 0 skipped\n", true},
		"a skip": {ev("run", "A") + ev("skip", "A") + ev("run", "B") + ev("pass", "B") + whole("pass"), false,
			"ok   p: 2 tests, 1.5 s\n1 passed, 0 failed, 1 skipped\n", false},
		"a skip in CI": {ev("run", "A") + ev("skip", "A") + ev("run", "B") + ev("pass", "B") + whole("pass"), true,
			"ok   p: 2 tests, 1.5 s\n1 passed, 0 failed, 1 skipped\n", true},
		"a package that does not build": {
			`{"Action":"build-output","ImportPath":"p","Output":"syntax error\n"}` + "\n" + `{"Action":"build-fail","ImportPath":"p"}` + "\n" + whole("fail"), false,
			"syntax error\nFAIL p: 0 tests, 1.5 s\n0 passed, 1 failed, 0 skipped\n", true},
		"a package that dies": {ev("run", "A") + ev("output", "A") + whole("fail"), false,
			"FAIL p: 0 tests, 1.5 s\nno verdict on p.A\noutput of A\n0 passed, 1 failed, 0 skipped\n", true},
		"nothing":             {"", false, "0 passed, 0 failed, 0 skipped\n", true},
		"words between lines": {"go: downloading x\n" + ev("run", "A") + ev("pass", "A"), false, "go: downloading x\n1 passed, 0 failed, 0 skipped\n", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			c := newCounter(&out, false)
			if err := c.read(strings.NewReader(tt.stream)); err != nil {
				t.Fatal(err)
			}
			if err := c.finish(tt.ci); (err != nil) != tt.fails {
				t.Errorf("finish: got %v, want an error: %v", err, tt.fails)
			}
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTryAgain(t *testing.T) {
	t.Parallel()
	const stream = `{"Action":"run","Package":"p","Test":"A"}
{"Action":"run","Package":"p","Test":"A/x"}
{"Action":"run","Package":"p","Test":"A/y"}
{"Action":"fail","Package":"p","Test":"A/x"}
{"Action":"fail","Package":"p","Test":"A/y"}
{"Action":"fail","Package":"p","Test":"A"}
{"Action":"run","Package":"p","Test":"B"}
{"Action":"fail","Package":"p","Test":"B"}
{"Action":"run","Package":"p","Test":"C"}
{"Action":"pass","Package":"p","Test":"C"}
`
	const end = `{"Action":"fail","Package":"p"}` + "\n"
	tests := map[string]struct {
		stream string
		most   int
		pass   []string // tests that pass when they run again
		ran    []string
		last   string
		fails  bool
	}{
		"all pass then":     {stream + end, 2, []string{"A", "B"}, []string{"A", "B"}, "4 passed, 0 failed, 0 skipped", false},
		"one fails again":   {stream + end, 2, []string{"A"}, []string{"A", "B"}, "3 passed, 1 failed, 0 skipped", true},
		"too many":          {stream + end, 1, []string{"A", "B"}, nil, "1 passed, 3 failed, 0 skipped", true},
		"not asked for":     {stream + end, 0, []string{"A", "B"}, nil, "1 passed, 3 failed, 0 skipped", true},
		"a package is lost": {stream + end + `{"Action":"fail","Package":"q"}` + "\n", 2, []string{"A", "B"}, nil, "1 passed, 4 failed, 0 skipped", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			c := newCounter(&out, false)
			if err := c.read(strings.NewReader(tt.stream)); err != nil {
				t.Fatal(err)
			}
			var ran []string
			c.tryAgain(tt.most, func(_ io.Writer, x test) error {
				ran = append(ran, x.name)
				if slices.Contains(tt.pass, x.name) {
					return nil
				}
				return errors.New("exit status 1")
			})
			if err := c.finish(true); (err != nil) != tt.fails {
				t.Errorf("finish: got %v, want an error: %v", err, tt.fails)
			}
			if diff := cmp.Diff(tt.ran, ran); diff != "" {
				t.Errorf("ran again (-want +got):\n%s", diff)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if got := lines[len(lines)-1]; got != tt.last {
				t.Errorf("last line: got %q, want %q", got, tt.last)
			}
		})
	}
}
