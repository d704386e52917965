package trace

import (
	"encoding/json"
	"unicode/utf8"
)

const (
	maxChain      = 12
	maxExceptions = 100
	maxFrames     = 120
	maxWidth      = 20
	maxMessage    = 8000
	maxSource     = 500
)

// exceptionReport is an exception as the tracer reports it.
type exceptionReport struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	// Column counts characters from 1, ByteColumn bytes from 0; one of them is there.
	Column     *int               `json:"column"`
	ByteColumn *int               `json:"byte_column"`
	Function   string             `json:"function"`
	Traceback  []TracebackFrame   `json:"traceback"`
	Cause      *exceptionReport   `json:"cause"`
	Context    *exceptionReport   `json:"context"`
	Group      []*exceptionReport `json:"group"`
}

// defineException reads how the program ended, and the report of the exception.
func (d *decoder) defineException(fields []json.RawMessage) error {
	kind, err := text(fields[0], maxName)
	if err != nil || (kind != "exception" && kind != "syntax_error") || d.rec.Exception != nil {
		return errRecord
	}
	var report *exceptionReport
	if err := json.Unmarshal(fields[1], &report); err != nil || report == nil {
		return errRecord
	}
	left := maxExceptions
	exception := d.exception(report, 0, &left)
	if exception == nil {
		return errRecord
	}
	d.rec.Exception = exception
	d.rec.SyntaxError = kind == "syntax_error"
	return nil
}

// exception turns a report into an Exception, nil when it is out of bounds or
// left allows no more.
func (d *decoder) exception(r *exceptionReport, depth int, left *int) *Exception {
	if r == nil || depth > maxChain || *left == 0 || r.Line < 0 || r.Line > maxLine {
		return nil
	}
	*left--
	e := &Exception{
		Type: shorten(r.Type, maxName), Message: shorten(r.Message, maxMessage), File: shorten(r.File, maxName),
		Line: r.Line, Column: d.column(r), Function: shorten(r.Function, maxName),
		Traceback: []TracebackFrame{}, Group: []*Exception{},
	}
	for _, f := range r.Traceback[:min(len(r.Traceback), maxFrames)] {
		f.File, f.Function, f.Source = shorten(f.File, maxName), shorten(f.Function, maxName), ""
		if f.Line < 0 || f.Line > maxLine {
			return nil
		}
		if !f.Library {
			f.Source = shorten(d.sourceLine(f.File, f.Line), maxSource)
		}
		e.Traceback = append(e.Traceback, f)
	}
	e.Cause = d.exception(r.Cause, depth+1, left)
	e.Context = d.exception(r.Context, depth+1, left)
	for _, g := range r.Group[:min(len(r.Group), maxWidth)] {
		if inner := d.exception(g, depth+1, left); inner != nil {
			e.Group = append(e.Group, inner)
		}
	}
	return e
}

// column is the column in characters, from 1.
func (d *decoder) column(r *exceptionReport) *int {
	if r.Column != nil && *r.Column > 0 && *r.Column <= maxLine {
		return r.Column
	}
	if r.ByteColumn == nil || *r.ByteColumn < 0 || *r.ByteColumn > maxLine {
		return nil
	}
	n := *r.ByteColumn + 1
	if line := d.sourceLine(r.File, r.Line); *r.ByteColumn <= len(line) {
		n = utf8.RuneCountInString(line[:*r.ByteColumn]) + 1
	}
	return &n
}

// sourceLine is a line of one of the job's files, empty when there is none.
func (d *decoder) sourceLine(path string, line int) string {
	lines := d.sourceLines(path)
	if line < 1 || line > len(lines) {
		return ""
	}
	return lines[line-1]
}

// sourceLines are the lines of one of the job's files, none when it is not one.
func (d *decoder) sourceLines(path string) []string {
	source, ok := d.opts.Files[path]
	if !ok {
		return nil
	}
	if d.sources == nil {
		d.sources = map[string][]string{}
	}
	lines, ok := d.sources[path]
	if !ok {
		lines = SplitLines(source)
		d.sources[path] = lines
	}
	return lines
}

// shorten cuts s to limit bytes, on a character's edge.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
