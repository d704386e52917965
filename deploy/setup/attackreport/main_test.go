package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	runcNotes = `{"runtime":"runc","runtime_version":"runc version 1.3.3","engine":"28.5.2","kernel":"6.12","system":"Debian","cgroup":"v2","image":"i"}
{"runtime":"runc","attack":"02_b","wanted":["ok"],"got":"ok","ok":3,"contained":true}
{"runtime":"runc","attack":"01_a","wanted":["ok"],"got":"ok","ok":1,"advisories":2,"contained":true}
`
	runscNotes = `{"runtime":"runsc","runtime_version":"runsc 1","engine":"28.5.2","kernel":"6.12","system":"Debian","cgroup":"v2","image":"i"}
{"runtime":"runsc","attack":"01_a","wanted":["ok","result_invalid"],"got":"result_invalid","contained":true}
{"runtime":"runsc","attack":"02_b","wanted":["ok"],"got":"ok","breaches":1,"contained":false}
`
)

func notes(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReport(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "page.md")
	var out bytes.Buffer
	err := run([]string{"-o", page, "-refused", "crun=no\nhybrid cgroups.", notes(t, runcNotes), notes(t, runscNotes)}, &out)
	if err == nil || !strings.Contains(err.Error(), "1 attacks were not contained") {
		t.Errorf("got error %v, want one attack not contained", err)
	}
	want := `ATTACK  WANTED                    RUNC            RUNSC
01_a    ok; ok or result_invalid  ok (2 to note)  result_invalid
02_b    ok                        ok              BREACH, ok
crun: not accepted by this engine: no hybrid cgroups.
2 attacks under 2 runtimes, 1 not contained
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"| runsc | runsc 1 | Docker 28.5.2 | 6.12 | Debian | v2 |",
		"| 01 a | ok; ok or result_invalid | ok (2 to note) | result_invalid |",
		"crun was not accepted by this engine: no hybrid cgroups.",
	} {
		if !strings.Contains(string(text), line+"\n") {
			t.Errorf("page has no line %q:\n%s", line, text)
		}
	}
}

// An attack that was contained, and then one of them that was not run, is a failure.
func TestReportOfLess(t *testing.T) {
	t.Parallel()
	for name, texts := range map[string][]string{
		"nothing":          nil,
		"no attack":        {strings.SplitAfter(runcNotes, "\n")[0]},
		"no machine":       {"{}\n"},
		"not an attack":    {strings.SplitAfter(runcNotes, "\n")[0] + "x\n"},
		"less under runsc": {runcNotes, strings.Join(strings.SplitAfter(runscNotes, "\n")[:2], "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var paths []string
			for _, text := range texts {
				paths = append(paths, notes(t, text))
			}
			if err := run(paths, &bytes.Buffer{}); err == nil {
				t.Error("got no error")
			}
		})
	}
	if err := run([]string{notes(t, runcNotes)}, &bytes.Buffer{}); err != nil {
		t.Errorf("got error %v, want none", err)
	}
}
