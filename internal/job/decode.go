package job

import (
	"encoding/json"
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
	d := newDocument(data)
	switch {
	case len(data) > MaxDocumentBytes:
		d.faults.add("", "the document must be at most %d bytes", MaxDocumentBytes)
		return Job{}, d.faults.err()
	case !utf8.Valid(data):
		d.faults.add("", "the document %s", notUTF8(data))
		return Job{}, d.faults.err()
	}
	j, err := d.job(max, extra)
	if err != nil {
		return Job{}, d.faults.err()
	}
	if !json.Valid(data) {
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
	given := make(map[string]bool)
	fields := map[string]func(path string) error{
		"language":    func(p string) error { return d.nonEmpty(p, &j.Language) },
		"entrypoint":  func(p string) error { return d.nonEmpty(p, &j.Entrypoint) },
		"files":       func(p string) error { return d.textMap(p, &j.Files) },
		"code":        func(p string) error { return d.text(p, &code) },
		"stdin":       func(p string) error { return d.text(p, &j.Stdin) },
		"args":        func(p string) error { return d.texts(p, &j.Args) },
		"limits":      func(p string) error { return d.limits(p, &j.Limits) },
		"trace":       func(p string) error { return d.trace(p, &j.Trace) },
		"queue":       func(p string) error { return d.nonEmpty(p, (*string)(&j.Queue)) },
		"tenant":      func(p string) error { return d.text(p, &j.Tenant) },
		"id":          func(p string) error { return d.text(p, &j.ID) },
		"name":        func(p string) error { return d.text(p, &j.Name) },
		"labels":      func(p string) error { return d.textMap(p, &j.Labels) },
		"retention_s": func(p string) error { return d.integer(p, &j.RetentionS) },
	}
	for key, to := range extra {
		fields[key] = func(p string) error { return d.text(p, to) }
	}
	err := d.object("", func(key, path string) error {
		given[key] = true
		return d.known(fields, key, path)
	})
	if err == nil {
		err = d.end()
	}
	if err != nil {
		return Job{}, err
	}
	if given["code"] {
		d.useCode(&j, code, given["files"])
	}
	return j.Normalize(), nil
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
	fields := make(map[string]func(string) error, len(limitFields()))
	for _, f := range limitFields() {
		fields[f.name] = func(p string) error { return d.integer(p, f.of(l)) }
	}
	return d.object(path, func(key, path string) error { return d.known(fields, key, path) })
}

func (d *document) trace(path string, t *TraceOptions) error {
	fields := map[string]func(string) error{
		"mode":    func(p string) error { return d.nonEmpty(p, (*string)(&t.Mode)) },
		"values":  func(p string) error { return d.boolean(p, &t.Values) },
		"include": func(p string) error { return d.texts(p, &t.Include) },
	}
	return d.object(path, func(key, path string) error { return d.known(fields, key, path) })
}

func (d *document) known(fields map[string]func(string) error, key, path string) error {
	read, ok := fields[key]
	if !ok {
		d.faults.add(path, "unknown field")
		return d.skip(path)
	}
	return read(path)
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
