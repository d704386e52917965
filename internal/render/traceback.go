package render

import (
	"strings"

	"github.com/execra/tracefleet/internal/job"
)

// What CPython prints between two exceptions of a chain.
const (
	causeWords   = "\nThe above exception was the direct cause of the following exception:\n\n"
	contextWords = "\nDuring handling of the above exception, another exception occurred:\n\n"
)

// withoutTraceback cuts the final traceback off the end of stderr: the section
// on the exception says the same.
func withoutTraceback(stderr string, r job.Result) string {
	if r.Exception == nil || r.Status != job.StatusException && r.Status != job.StatusSyntaxError {
		return stderr
	}
	start := tracebackStart(stderr, r.Status)
	if start < 0 || !strings.Contains(stderr[start:], r.Exception.Type) {
		return stderr
	}
	for {
		before, chained := strings.CutSuffix(stderr[:start], causeWords)
		if !chained {
			before, chained = strings.CutSuffix(stderr[:start], contextWords)
		}
		earlier := tracebackStart(before, r.Status)
		if !chained || earlier < 0 {
			return stderr[:start]
		}
		start = earlier
	}
}

// tracebackStart finds where the last traceback in text starts, -1 when there is none.
func tracebackStart(text string, s job.Status) int {
	headers := []string{"Traceback (most recent call last):\n", "  + Exception Group Traceback (most recent call last):\n"}
	if s == job.StatusSyntaxError {
		headers = append(headers, "  File \"")
	}
	found := -1
	for _, header := range headers {
		if strings.HasPrefix(text, header) {
			found = max(found, 0)
		}
		if i := strings.LastIndex(text, "\n"+header); i >= 0 {
			found = max(found, i+1)
		}
	}
	return found
}
