// Package doctor checks what a command needs and says what to do about what is
// missing. It knows neither Docker nor asynq: whoever asks hands in the facts.
package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/execra/tracefleet/internal/oneline"
)

// Status is the outcome of one check.
type Status string

// The outcomes. Only Fail makes a command unfit for work.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Row is one check.
type Row struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Detail is what was found.
	Detail string `json:"detail"`
	// Remedy is what to do; empty when nothing has to be done.
	Remedy string `json:"remedy,omitempty"`
}

// Healthy tells whether no row failed.
func Healthy(rows []Row) bool {
	for _, r := range rows {
		if r.Status == Fail {
			return false
		}
	}
	return true
}

// Text writes rows as a table for people, each remedy below its row.
func Text(w io.Writer, rows []Row) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		mark := map[Status]string{OK: "✓", Warn: "!", Fail: "✗"}[r.Status]
		// Errors come back from Flush.
		_, _ = fmt.Fprintf(table, "%s %s\t%s\t%s\n", mark, r.Status, r.Name, line(r.Detail))
		if r.Remedy != "" {
			_, _ = fmt.Fprintf(table, "\t\t→ %s\n", line(r.Remedy))
		}
	}
	return table.Flush()
}

// line keeps a text from outside on its row.
func line(s string) string { return oneline.Of(s, 1000) }

// report is the JSON form.
type report struct {
	Healthy bool  `json:"healthy"`
	Checks  []Row `json:"checks"`
}

// JSON writes rows as one document.
func JSON(w io.Writer, rows []Row) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(report{Healthy: Healthy(rows), Checks: rows})
}
