package runner

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/trace"
)

func TestStreamText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data  string
		cut   bool
		want  string
		lossy bool
	}{
		"empty":                             {"", false, "", false},
		"plain":                             {"a\x00b\n", false, "a\x00b\n", false},
		"whole at the cut":                  {"aé", true, "aé", false},
		"two bytes, cut":                    {"a\xc3", true, "a", false},
		"three bytes, cut":                  {"a\xe2\x82", true, "a", false},
		"four bytes, cut":                   {"a\xf0\x9f\x98", true, "a", false},
		"begun, not cut":                    {"a\xf0\x9f\x98", false, "a\ufffd", true},
		"broken at the cut":                 {"a\xff", true, "a\ufffd", true},
		"stray continuation at the cut":     {"\x80\x80\x80\x80\x80", true, strings.Repeat("\ufffd", 5), true},
		"each maximal part once":            {"\xe2\x82A\xf0\x9f\xff\x80", false, "\ufffdA\ufffd\ufffd\ufffd", true},
		"overlong":                          {"\xc0\xaf", false, "\ufffd\ufffd", true},
		"surrogate":                         {"\xed\xa0\x80", false, "\ufffd\ufffd\ufffd", true},
		"the replacement character is text": {"\xef\xbf\xbd", false, "\ufffd", false},
		"latin-1":                           {"caf\xe9!", false, "caf\ufffd!", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, lossy := streamText([]byte(c.data), c.cut)
			if got != c.want || lossy != c.lossy {
				t.Errorf("got %q, %t, want %q, %t", got, lossy, c.want, c.lossy)
			}
		})
	}
}

func FuzzStreamText(f *testing.F) {
	f.Add([]byte("a\xe2\x82A\xf0\x9f\xff\x80"), true)
	f.Add([]byte("\xed\xa0\x80é"), false)
	f.Fuzz(func(t *testing.T, data []byte, cut bool) {
		text, lossy := streamText(data, cut)
		if !utf8.ValidString(text) {
			t.Fatalf("%q is not UTF-8", text)
		}
		if !lossy && !strings.HasPrefix(string(data), text) {
			t.Fatalf("%q is not the beginning of %q", text, data)
		}
		if !lossy && len(data)-len(text) > 3 {
			t.Fatalf("%d bytes were left out", len(data)-len(text))
		}
	})
}

func TestHeadline(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	number := func(n int) *int { return &n }
	long := strings.Repeat("x", 300)
	for name, c := range map[string]struct {
		result job.Result
		want   string
	}{
		"ok":     {job.Result{Status: job.StatusOK}, "Finished normally."},
		"exit":   {job.Result{Status: job.StatusExitNonzero, Returncode: number(3)}, "Exited with code 3."},
		"signal": {job.Result{Status: job.StatusSignaled, Signal: text("SIGSEGV")}, "Killed by the signal SIGSEGV."},
		"limit":  {job.Result{Status: job.StatusTimeLimit, Error: text("Code execution timed out after 10s.")}, "Code execution timed out after 10s."},
		"exception": {job.Result{Status: job.StatusException, Exception: &trace.Exception{
			Type: "IndexError", Message: "list index out of range", File: "main.py", Line: 3, Function: "<module>",
		}}, "IndexError: list index out of range (main.py:3 in <module>)"},
		"exception without message or place": {job.Result{Status: job.StatusException, Exception: &trace.Exception{Type: "KeyError"}}, "KeyError"},
		"syntax error": {job.Result{Status: job.StatusSyntaxError, Exception: &trace.Exception{
			Type: "SyntaxError", Message: "'(' was never closed", File: "main.py", Line: 2,
		}}, "SyntaxError: '(' was never closed (main.py:2)"},
		"syntax error that nobody described": {job.Result{Status: job.StatusSyntaxError}, "It does not compile."},
		"a long message keeps the place": {job.Result{Status: job.StatusException, Exception: &trace.Exception{
			Type: "E", Message: "a\n" + long, File: "main.py", Line: 3, Function: "f",
		}}, "E: a " + strings.Repeat("x", 177) + "… (main.py:3 in f)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := headline(c.result); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzHeadline(f *testing.F) {
	f.Add("ValueError", "bad\nthing", "main.py", 3, "f")
	f.Add("\x1b[2J", strings.Repeat("é\u202e", 200), strings.Repeat("a/", 300), 1<<40, "\xff")
	f.Fuzz(func(t *testing.T, typ, message, file string, line int, function string) {
		got := headline(job.Result{Status: job.StatusException, Exception: &trace.Exception{
			Type: typ, Message: message, File: file, Line: line, Function: function,
		}})
		if n := utf8.RuneCountInString(got); n > 200 {
			t.Errorf("%d characters", n)
		}
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is not printable", got)
		}
	})
}
