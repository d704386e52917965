package job

import (
	"fmt"
	"strings"
)

// maxFaults is how many faults of one document are kept; the rest are counted.
// A hostile document can hold millions, a person reads a few.
const maxFaults = 50

// FieldError is one fault of a Job document.
type FieldError struct {
	// Field is the path of the field, such as limits.wall_ms, args[2] or
	// files["a.py"]; empty when the document as a whole is at fault.
	Field string `json:"field"`
	// Message says what must hold, and what was found where that helps. It
	// never quotes a program, its input or its arguments.
	Message string `json:"message"`
}

// Error gives "field: message".
func (f FieldError) Error() string {
	if f.Field == "" {
		return f.Message
	}
	return f.Field + ": " + f.Message
}

// ValidationError lists every fault of a Job. It is the error of Decode and
// Validate for a document that was read but must not be run.
type ValidationError struct {
	// Fields holds the faults in the order they were found, 50 at most.
	Fields []FieldError
	// Omitted counts the faults beyond those in Fields.
	Omitted int
}

// Error gives all faults on one line.
func (e *ValidationError) Error() string {
	parts := make([]string, 0, len(e.Fields)+1)
	for _, f := range e.Fields {
		parts = append(parts, f.Error())
	}
	if e.Omitted > 0 {
		parts = append(parts, fmt.Sprintf("and %d more faults", e.Omitted))
	}
	return "invalid job: " + strings.Join(parts, "; ")
}

// faults collects FieldErrors up to maxFaults.
type faults struct {
	fields  []FieldError
	omitted int
}

func (f *faults) add(field, format string, args ...any) {
	if len(f.fields) == maxFaults {
		f.omitted++
		return
	}
	f.fields = append(f.fields, FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
}

// err returns nil when nothing was collected.
func (f *faults) err() error {
	if len(f.fields) == 0 {
		return nil
	}
	return &ValidationError{Fields: f.fields, Omitted: f.omitted}
}

// root returns the name of the top-level field that a path starts with.
func root(field string) string {
	if i := strings.IndexAny(field, ".["); i >= 0 {
		return field[:i]
	}
	return field
}
