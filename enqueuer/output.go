package main

import (
	"encoding/json"
	"fmt"
)

// printLine writes one line to standard output.
func (s *session) printLine(format string, args ...any) error {
	_, err := fmt.Fprintf(s.out, format+"\n", args...)
	return written(err)
}

// printJSON writes a document to standard output, on one line.
func (s *session) printJSON(v any) error {
	encoder := json.NewEncoder(s.out)
	encoder.SetEscapeHTML(false)
	return written(encoder.Encode(v))
}

// written says of an error, if there is one, that it came about in writing to standard output.
func written(err error) error {
	if err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// notice writes to standard error. When that is gone there is nobody to tell.
func (s *session) notice(format string, args ...any) { _, _ = fmt.Fprintf(s.err, format, args...) }
