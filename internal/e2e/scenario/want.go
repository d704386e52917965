package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"
)

// Want is what a result must say: the checks of one want.json.
type Want struct {
	checks []check
}

// check compares one key of want.json with a result.
type check interface {
	compare(r *result) []Difference
}

// Difference is one thing that a result should have said and did not.
type Difference struct {
	// Key is the key of want.json, with the part that differs.
	Key string
	// Want and Got are shortened for reading.
	Want, Got string
}

// String says what differs in one line.
func (d Difference) String() string { return fmt.Sprintf("%s: got %s, want %s", d.Key, d.Got, d.Want) }

// missing is what a difference shows for a field that is not there.
const missing = "(missing)"

// shownBytes bounds how much of a value a difference shows.
const shownBytes = 400

func differs(key string, want, got any) []Difference {
	return []Difference{{Key: key, Want: shown(want), Got: shown(got)}}
}

// shown is a value as short JSON.
func shown(value any) string {
	if value == missing {
		return missing
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	if len(text) <= shownBytes {
		return string(text)
	}
	return strings.ToValidUTF8(string(text[:shownBytes]), "") + "..."
}

// parser turns the value of one key of want.json into its check.
type parser func(key string, value json.RawMessage) (check, error)

// parsers holds one entry for each key that a want.json may have.
// trace_in_order is not among them: it says how trace_has is meant.
func parsers() map[string]parser {
	return map[string]parser{
		"status":           parseStatus,
		"returncode":       parseEqual,
		"stdout":           parseEqual,
		"stdout_truncated": parseEqual,
		"stdout_bytes":     parseEqual,
		"encoding":         parseEqual,
		"error":            parseEqual,
		"signal":           parseSignal,

		"stdout_contains":     parseText("stdout", true),
		"stderr_contains":     parseText("stderr", true),
		"headline_contains":   parseText("headline", true),
		"stdout_not_contains": parseText("stdout", false),
		"stdout_sha256":       parseHash,
		"stdout_bytes_min":    parseAtLeast("stdout_bytes"),
		"limits_hit":          parseLimitsHit,
		"exception":           parseException,

		"lines":               parseLines,
		"calls":               parseCalls,
		"loops":               parseLoops,
		"total_calls":         parseSummaryCount,
		"max_recursion_depth": parseSummaryCount,
		"exceptions_caught":   parseSummaryCount,

		"trace_has":  parseTraceHas,
		"trace_not":  parseTraceNot,
		"usage":      parseUsage,
		"tracer":     parseTracer,
		"valid_utf8": parseValidUTF8,
	}
}

const orderKey = "trace_in_order"

// ParseWant reads a want.json. An unknown or doubled key at any level, a value
// of the wrong kind and a missing status are errors: a typing mistake must not
// turn a check off.
func ParseWant(data []byte) (Want, error) {
	if err := doubledKey(json.NewDecoder(bytes.NewReader(data))); err != nil {
		return Want{}, err
	}
	fields, err := object(data)
	if err != nil {
		return Want{}, err
	}
	if _, found := fields["status"]; !found {
		return Want{}, errors.New("no status")
	}
	inOrder, err := takeOrder(fields)
	if err != nil {
		return Want{}, err
	}
	known := parsers()
	var want Want
	for _, key := range sortedKeys(fields) {
		parse, isKnown := known[key]
		if !isKnown {
			return Want{}, fmt.Errorf("unknown key %q", key)
		}
		c, err := parse(key, fields[key])
		if err != nil {
			return Want{}, fmt.Errorf("%s: %w", key, err)
		}
		if has, isTrace := c.(traceHas); isTrace {
			has.inOrder = inOrder
			c = has
		}
		want.checks = append(want.checks, c)
	}
	return want, nil
}

// takeOrder removes trace_in_order from the keys and returns its value.
func takeOrder(fields map[string]json.RawMessage) (inOrder bool, err error) {
	value, found := fields[orderKey]
	if !found {
		return false, nil
	}
	delete(fields, orderKey)
	if _, found := fields["trace_has"]; !found {
		return false, fmt.Errorf("%s without trace_has", orderKey)
	}
	if err := strict(value, &inOrder); err != nil {
		return false, fmt.Errorf("%s: %w", orderKey, err)
	}
	return inOrder, nil
}

// Statuses are the statuses that a result may have.
func (w Want) Statuses() []string {
	for _, c := range w.checks {
		if s, ok := c.(status); ok {
			return s.allowed
		}
	}
	return nil
}

// Compare returns how a result document differs. files are the program's own
// files; frames of others are left out of traceback_lines.
func (w Want) Compare(files map[string]string, document []byte) []Difference {
	fields, err := object(document)
	if err != nil {
		return []Difference{{Key: "result", Want: "a JSON object", Got: err.Error()}}
	}
	r := &result{document: document, fields: fields, files: files}
	var found []Difference
	for _, c := range w.checks {
		found = append(found, c.compare(r)...)
	}
	return found
}

// result is a result document while it is compared.
type result struct {
	document []byte
	fields   map[string]json.RawMessage
	files    map[string]string
}

// read decodes one field. It reports a difference under the given key when
// the field is missing or of another kind.
func (r *result) read(key, field string, into any) []Difference {
	value, found := r.fields[field]
	if !found {
		return []Difference{{Key: key, Want: "a field " + field, Got: missing}}
	}
	if err := json.Unmarshal(value, into); err != nil {
		return []Difference{{Key: key, Want: "a well-formed " + field, Got: err.Error()}}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// validUTF8 checks that the whole document is text that any client can read.
type validUTF8 struct{}

func parseValidUTF8(_ string, value json.RawMessage) (check, error) {
	var wanted bool
	if err := strict(value, &wanted); err != nil {
		return nil, err
	}
	if !wanted {
		return nil, errors.New("only true can be asked for")
	}
	return validUTF8{}, nil
}

func (validUTF8) compare(r *result) []Difference {
	switch {
	case !utf8.Valid(r.document):
		return differs("valid_utf8", true, "bytes that are not UTF-8")
	case loneSurrogate(r.document):
		return differs("valid_utf8", true, "half of a surrogate pair")
	}
	return nil
}
