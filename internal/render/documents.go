package render

import (
	"encoding/json"
	"io"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/trace"
)

// JSON writes r as the Result document, on one line.
func JSON(w io.Writer, r job.Result) error {
	data, err := job.EncodeResult(r)
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// execraDocument is a result as Execra's code knows it: what a plain run gives
// (stdout, stderr, returncode, error), what its CodeTracer gives (get_trace_log,
// get_summary), and how it ended.
type execraDocument struct {
	ID         string               `json:"id"`
	Status     job.Status           `json:"status"`
	Headline   string               `json:"headline"`
	Error      *string              `json:"error,omitempty"`
	Stdout     string               `json:"stdout"`
	Stderr     string               `json:"stderr"`
	Returncode *int                 `json:"returncode"`
	TraceLog   []trace.ExecraEvent  `json:"trace_log"`
	Summary    *trace.ExecraSummary `json:"summary"`
	Exception  *trace.Exception     `json:"exception"`
	Loops      []trace.Loop         `json:"loops"`

	// Exceptions are the first and the last that were raised, caught or not.
	Exceptions []trace.Raised `json:"exceptions"`
	// ThreadExceptions are those that ended a thread; the program itself survives them.
	ThreadExceptions []trace.ThreadException `json:"thread_exceptions"`
	// Effects are what the program reached for outside itself.
	Effects []trace.Effect `json:"effects"`
}

// Execra writes r in Execra's form, on one line. The key error is there on
// abnormal ends only, as in Execra.
func Execra(w io.Writer, r job.Result) error {
	d := execraDocument{
		ID: r.ID, Status: r.Status, Headline: r.Headline, Error: r.Error,
		Stdout: r.Stdout, Stderr: r.Stderr, Returncode: r.Returncode,
		TraceLog: trace.ExecraLog(r.Trace), Summary: trace.ExecraSummarize(r.Summary, r.Trace),
		Exception: r.Exception, Loops: []trace.Loop{}, Exceptions: []trace.Raised{}, ThreadExceptions: []trace.ThreadException{}, Effects: []trace.Effect{},
	}
	if s := r.Summary; s != nil {
		d.Loops = append(d.Loops, s.Loops...)
		d.Exceptions = append(d.Exceptions, s.Exceptions...)
		d.ThreadExceptions = append(d.ThreadExceptions, s.ThreadExceptions...)
	}
	d.Effects = append(d.Effects, r.Effects...)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(d)
}
