package job

import (
	"fmt"
	"io"
	"unicode/utf8"
)

// MaxDocumentBytes bounds a Job document. A job of the largest size, with
// every character of it written as an escape, fits.
const MaxDocumentBytes = 16 << 20

// Decode reads one Job document, fills in the defaults, and checks it against
// every rule of Validate, with max as the largest limits allowed.
//
// The reading is strict. Refused are: more than MaxDocumentBytes, bytes that
// are not UTF-8, anything behind the document, unknown keys (case counts), keys
// given twice, null, strings or fractions for numbers, and escapes of half a
// surrogate pair. The key code may stand in place of files: it is the source
// of main.py.
//
// The error is a *ValidationError that lists every fault when the document was
// read; any other error is the reader's.
func Decode(r io.Reader, max Limits) (Job, error) { return DecodeWith(r, max, nil) }

// DecodeWith is Decode for a document that carries more than the job: each key of extra
// is a further key that the document may have, a string, which is stored there.
func DecodeWith(r io.Reader, max Limits, extra map[string]*string) (Job, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxDocumentBytes+1))
	if err != nil {
		return Job{}, fmt.Errorf("read job: %w", err)
	}
	return decode(data, max, extra)
}

// DecodeBytes is Decode for a document that is in memory.
func DecodeBytes(data []byte, max Limits) (Job, error) { return decode(data, max, nil) }

func decode(data []byte, max Limits, extra map[string]*string) (Job, error) {
	d := &document{data: data}
	switch {
	case len(data) > MaxDocumentBytes:
		d.faults.add("", "the document must be at most %d bytes", MaxDocumentBytes)
		return Job{}, d.faults.err()
	case !utf8.Valid(data):
		d.faults.add("", "the document %s", notUTF8(data))
		return Job{}, d.faults.err()
	}
	var valid bool
	d.dec, valid = newTokens(data)
	j, err := d.job(max, extra)
	if err != nil {
		return Job{}, d.faults.err()
	}
	if !valid {
		// The walk is by tokens; this is the belt to its braces.
		d.faults.add("", "the document is not valid JSON")
		return Job{}, d.faults.err()
	}
	d.addValidation(j, max)
	if err := d.faults.err(); err != nil {
		return Job{}, err
	}
	return j, nil
}

// job reads the whole document.
func (d *document) job(max Limits, extra map[string]*string) (Job, error) {
	j := Job{Limits: DefaultLimits().Clamp(max), Trace: DefaultTrace(), RetentionS: DefaultRetentionS}
	var code string
	var codeGiven, filesGiven bool
	err := d.object("", func(key, path string) error {
		if to := extra[key]; to != nil {
			return d.text(path, to)
		}
		switch key {
		case "code":
			codeGiven = true
			return d.text(path, &code)
		case "files":
			filesGiven = true
		}
		return d.field(&j, key, path)
	})
	if err == nil {
		err = d.end()
	}
	if err != nil {
		return Job{}, err
	}
	if codeGiven {
		d.useCode(&j, code, filesGiven)
	}
	return j.withDefaults(), nil
}

// field reads one field of the job.
func (d *document) field(j *Job, key, path string) error {
	switch key {
	case "language":
		return d.nonEmpty(path, &j.Language)
	case "entrypoint":
		return d.nonEmpty(path, &j.Entrypoint)
	case "files":
		return d.textMap(path, &j.Files)
	case "stdin":
		return d.text(path, &j.Stdin)
	case "args":
		return d.texts(path, &j.Args)
	case "limits":
		return d.limits(path, &j.Limits)
	case "trace":
		return d.trace(path, &j.Trace)
	case "queue":
		return d.nonEmpty(path, (*string)(&j.Queue))
	case "tenant":
		return d.text(path, &j.Tenant)
	case "id":
		return d.text(path, &j.ID)
	case "name":
		return d.text(path, &j.Name)
	case "labels":
		return d.textMap(path, &j.Labels)
	case "retention_s":
		return d.integer(path, &j.RetentionS)
	}
	return d.unknown(path)
}

// useCode puts the source of the key code in the place of files.
func (d *document) useCode(j *Job, code string, filesToo bool) {
	if filesToo {
		d.faults.add("code", "must not be given together with files")
		return
	}
	if j.Entrypoint != "" && j.Entrypoint != DefaultEntrypoint {
		d.faults.add("entrypoint", "must be %s, or left out, when code is given", DefaultEntrypoint)
	}
	j.Entrypoint = DefaultEntrypoint
	j.Files = map[string]string{DefaultEntrypoint: code}
}

func (d *document) limits(path string, l *Limits) error {
	return d.object(path, func(key, path string) error {
		for _, f := range limitTable {
			if f.name == key {
				return d.integer(path, f.of(l))
			}
		}
		return d.unknown(path)
	})
}

func (d *document) trace(path string, t *TraceOptions) error {
	return d.object(path, func(key, path string) error {
		switch key {
		case "mode":
			return d.nonEmpty(path, (*string)(&t.Mode))
		case "values":
			return d.boolean(path, &t.Values)
		case "include":
			return d.texts(path, &t.Include)
		}
		return d.unknown(path)
	})
}

func (d *document) unknown(path string) error {
	d.faults.add(path, "unknown field")
	return d.skip(path)
}

// nonEmpty reads a string that has a default: an empty one is refused here,
// because Normalize would take it for one left out.
func (d *document) nonEmpty(path string, to *string) error {
	if err := d.text(path, to); err != nil {
		return err
	}
	if *to == "" && !d.faulty(path) {
		d.faults.add(path, "must not be empty; leave the field out to get its default")
	}
	return nil
}

// addValidation adds the faults that Validate finds in fields that were read
// without one; a value that could not be read would only be reported twice.
func (d *document) addValidation(j Job, max Limits) {
	unread := make(map[string]bool)
	for _, f := range d.faults.fields {
		unread[f.Field] = true
		switch root(f.Field) {
		case "files", "code":
			unread["files"], unread["entrypoint"], unread["trace.include"] = true, true, true
		}
	}
	var found faults
	j.check(&found, max)
	for _, f := range found.fields {
		if !unread[f.Field] && (!unread["trace.include"] || root(f.Field) != "trace") {
			d.faults.add(f.Field, "%s", f.Message)
		}
	}
	d.faults.omitted += found.omitted
}

func (d *document) faulty(path string) bool {
	for _, f := range d.faults.fields {
		if f.Field == path {
			return true
		}
	}
	return false
}
