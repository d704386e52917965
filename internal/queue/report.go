package queue

import (
	"unicode/utf8"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/oneline"
)

// maxReportBytes bounds what is stored as the task's result.
const maxReportBytes = 4096

// Report is what an operator sees of a finished job in asynqmon. The whole result is in the ledger.
type Report struct {
	Status      job.Status `json:"status"`
	Headline    string     `json:"headline"`
	Returncode  *int       `json:"returncode"`
	StdoutBytes int64      `json:"stdout_bytes"`
	StderrBytes int64      `json:"stderr_bytes"`
}

// encode writes r as one line of JSON in ASCII of at most maxReportBytes; a long headline is cut.
func (r Report) encode() ([]byte, error) {
	for {
		doc, err := asciiJSON(r)
		if err != nil || len(doc) <= maxReportBytes || r.Headline == "" {
			return doc, err
		}
		r.Headline = cut(r.Headline, len(r.Headline)/2)
	}
}

// cut returns at most n bytes of s, whole characters only.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// oneLine makes s one line of at most n bytes.
func oneLine(s string, n int) string { return cut(oneline.Of(s, n), n) }
