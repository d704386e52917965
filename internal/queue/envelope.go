package queue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/execra/tracefleet/internal/job"
)

// EnvelopeVersion is the only version of the payload so far.
const EnvelopeVersion = 1

// maxEnvelopeBytes bounds a payload. asynq writes the payloads of all running tasks again every 5 s.
const maxEnvelopeBytes = 4096

// Envelope is the payload of a task: which job it is for, and what an operator likes to
// see in asynqmon. It holds no code. In Redis it is one line of JSON in ASCII.
type Envelope struct {
	V      int    `json:"v"`
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	Name   string `json:"name"`
	// Bytes is the size of the job's document, SHA256 its digest.
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Ahead is how many open jobs the tenant had in the queue when this one came; the shard follows from it. It is
	// not in the payload: the ledger remembers it.
	Ahead int64 `json:"-"`
	// QueuedAt is since when the job is queued, for Ensure: a task that was archived later was archived by a person,
	// and is left to the Sweeper. Not in the payload. When zero, what is archived is replaced.
	QueuedAt time.Time `json:"-"`
}

// ErrCorrupt means that a payload cannot be understood. The text says what is wrong.
var ErrCorrupt = errors.New("corrupt payload")

// encode writes e as a payload. Names that are too long for it are cut.
func (e Envelope) encode() ([]byte, error) {
	e.V = EnvelopeVersion
	if !job.ValidID(e.ID) {
		return nil, fmt.Errorf("envelope: %.40q is not the id of a job", e.ID)
	}
	for {
		doc, err := asciiJSON(e)
		if err != nil {
			return nil, fmt.Errorf("envelope: %w", err)
		}
		if len(doc) <= maxEnvelopeBytes {
			return doc, nil
		}
		if e.Name == "" {
			return nil, fmt.Errorf("envelope: %d bytes, at most %d", len(doc), maxEnvelopeBytes)
		}
		e.Name = cut(e.Name, len(e.Name)/2)
	}
}

// DecodeEnvelope reads a payload. Unknown fields are refused. The error wraps ErrCorrupt; what could be read is returned with it.
func DecodeEnvelope(payload []byte) (Envelope, error) {
	var e Envelope
	if len(payload) > maxEnvelopeBytes {
		return e, fmt.Errorf("%w: %d bytes, at most %d", ErrCorrupt, len(payload), maxEnvelopeBytes)
	}
	if !e.readPlain(string(payload)) {
		var err error
		if e, err = readEnvelope(payload); err != nil {
			return e, err
		}
	}
	switch {
	case e.V != EnvelopeVersion:
		return e, fmt.Errorf("%w: version %d, want %d", ErrCorrupt, e.V, EnvelopeVersion)
	case !job.ValidID(e.ID):
		return e, fmt.Errorf("%w: id %.40q", ErrCorrupt, e.ID)
	}
	return e, nil
}

// readEnvelope reads a payload of any form.
func readEnvelope(payload []byte) (e Envelope, err error) {
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		return e, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if len(bytes.TrimSpace(payload[dec.InputOffset():])) > 0 {
		return e, fmt.Errorf("%w: more than one document", ErrCorrupt)
	}
	return e, nil
}

// plainEnvelope is what encode writes when no character needs an escape, which is of most jobs.
var plainEnvelope = []string{`{"v":1,"id":"`, `","tenant":"`, `","name":"`, `","bytes":`, `,"sha256":"`, "\"}"}

// readPlain reads a payload of that form, at a tenth of the cost of any JSON. It tells false for another one; then what e holds
// means nothing.
func (e *Envelope) readPlain(s string) bool {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return false
	}
	var values [5]string
	for i, mark := range plainEnvelope {
		value, rest, ok := strings.Cut(s, mark)
		if !ok || strings.ContainsAny(value, `"\`) || i == 0 && value != "" {
			return false
		}
		if i > 0 {
			values[i-1] = value
		}
		s = rest
	}
	var err error
	e.V, e.ID, e.Tenant, e.Name, e.SHA256 = EnvelopeVersion, values[0], values[1], values[2], values[4]
	e.Bytes, err = strconv.ParseInt(values[3], 10, 64)
	return err == nil && s == "" && strconv.FormatInt(e.Bytes, 10) == values[3]
}

// asciiJSON writes v as one line of JSON in ASCII: asynqmon shows anything else as
// "non-printable bytes".
func asciiJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	doc := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	out := make([]byte, 0, len(doc))
	for _, r := range string(doc) {
		switch {
		case r == 0x7f:
			out = append(out, `\u007f`...)
		case r < 0x80:
			out = append(out, byte(r))
		case r < 0x10000:
			out = appendEscape(out, r)
		default:
			// A surrogate pair, as JSON wants it.
			out = appendEscape(appendEscape(out, 0xd800+(r-0x10000)>>10), 0xdc00+(r-0x10000)&0x3ff)
		}
	}
	return out, nil
}

func appendEscape(out []byte, r rune) []byte {
	out = append(out, `\u`...)
	for shift := 12; shift >= 0; shift -= 4 {
		out = strconv.AppendInt(out, int64(r>>shift)&0xf, 16)
	}
	return out
}
