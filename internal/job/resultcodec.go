package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/execra/tracefleet/internal/trace"
)

// MaxResultBytes bounds a Result document as it is. Workers cut a result until it keeps this bound and that of the store on
// its compressed form.
const MaxResultBytes = 64 << 20

// EncodeResult writes r as one JSON document on one line, with every list present: none
// is ever null. It fails only when the trace holds a value that is not JSON.
func EncodeResult(r Result) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r.withLists()); err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// DecodeResult reads one Result document and checks what callers branch on: the schema, the
// status, the limits hit, the encoding. Unknown fields are skipped, so that
// an older reader can show what a newer worker wrote.
func DecodeResult(data []byte) (Result, error) {
	if len(data) > MaxResultBytes {
		return Result{}, fmt.Errorf("decode result: %d bytes, at most %d", len(data), MaxResultBytes)
	}
	var r Result
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&r); err != nil {
		return Result{}, fmt.Errorf("decode result: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return Result{}, fmt.Errorf("decode result: more than one document")
	}
	if err := r.check(); err != nil {
		return Result{}, fmt.Errorf("decode result: %w", err)
	}
	return r.withLists(), nil
}

func (r Result) check() error {
	switch {
	case r.Schema != ResultSchema:
		return fmt.Errorf("schema: must be %q, got %q", ResultSchema, shorten(r.Schema, 40))
	case !ValidID(r.ID):
		return fmt.Errorf("id: not the id of a job")
	case !r.Status.Valid():
		return fmt.Errorf("status: unknown %q", shorten(string(r.Status), 40))
	case r.Encoding != EncodingUTF8 && r.Encoding != EncodingUTF8Lossy:
		return fmt.Errorf("encoding: unknown %q", shorten(r.Encoding, 40))
	}
	for _, hit := range r.LimitsHit {
		if !hit.Valid() {
			return fmt.Errorf("limits_hit: unknown %q", shorten(string(hit), 40))
		}
	}
	return nil
}

// withLists returns r with empty lists in place of missing ones. Only r itself and
// copies are changed.
func (r Result) withLists() Result {
	r.LimitsHit = list(r.LimitsHit)
	r.Tracer.Notes = list(r.Tracer.Notes)
	r.Exception = exceptionWithLists(r.Exception)
	r.Summary = summaryWithLists(r.Summary)
	r.Effects = list(r.Effects)
	r.Trace = traceWithLists(r.Trace)
	return r
}

func exceptionWithLists(e *trace.Exception) *trace.Exception {
	if e == nil {
		return nil
	}
	c := *e
	c.Traceback = list(c.Traceback)
	c.Cause = exceptionWithLists(c.Cause)
	c.Context = exceptionWithLists(c.Context)
	c.Group = make([]*trace.Exception, 0, len(e.Group))
	for _, item := range e.Group {
		c.Group = append(c.Group, exceptionWithLists(item))
	}
	return &c
}

func summaryWithLists(s *trace.Summary) *trace.Summary {
	if s == nil {
		return nil
	}
	c := *s
	c.ExecutionPath = list(c.ExecutionPath)
	c.Edges = list(c.Edges)
	c.Loops = list(c.Loops)
	c.Exceptions = list(c.Exceptions)
	c.ThreadExceptions = list(c.ThreadExceptions)
	if c.Lines == nil {
		c.Lines = map[string]map[string]int64{}
	}
	if c.Calls == nil {
		c.Calls = map[string]int64{}
	}
	return &c
}

func traceWithLists(t *trace.Trace) *trace.Trace {
	if t == nil {
		return nil
	}
	c := *t
	c.Files = list(c.Files)
	c.Functions = slices.Clone(list(c.Functions))
	for i := range c.Functions {
		c.Functions[i].Args = list(c.Functions[i].Args)
	}
	c.Events = list(c.Events)
	c.Gaps = list(c.Gaps)
	return &c
}

// list returns s, or an empty list in place of nil, which JSON would write as null.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
