package scenario

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// equal wants a field to be exactly this JSON value.
type equal struct {
	key  string
	want json.RawMessage
}

func parseEqual(key string, value json.RawMessage) (check, error) {
	return equal{key: key, want: value}, nil
}

func (c equal) compare(r *result) []Difference {
	got, found := r.fields[c.key]
	switch {
	case !found:
		return differs(c.key, c.want, missing)
	case !same(c.want, got):
		return differs(c.key, c.want, got)
	}
	return nil
}

// status wants one of several statuses.
type status struct{ allowed []string }

func parseStatus(_ string, value json.RawMessage) (check, error) {
	allowed, err := oneOrMore(value)
	return status{allowed: allowed}, err
}

func (c status) compare(r *result) []Difference {
	var got string
	if d := r.read("status", "status", &got); d != nil {
		return d
	}
	if !slices.Contains(c.allowed, got) {
		return differs("status", c.allowed, got)
	}
	return nil
}

// oneOrMore reads a text or a list of texts; none is an error.
func oneOrMore(value json.RawMessage) ([]string, error) {
	var texts []string
	if bytes.HasPrefix(bytes.TrimSpace(value), []byte("[")) {
		if err := strict(value, &texts); err != nil {
			return nil, err
		}
	} else {
		var text string
		if err := strict(value, &text); err != nil {
			return nil, err
		}
		texts = []string{text}
	}
	if len(texts) == 0 || slices.Contains(texts, "") {
		return nil, errors.New("no text to look for")
	}
	return texts, nil
}

// text wants texts to be in a field, or not to be.
type text struct {
	key, field string
	present    bool
	texts      []string
}

func parseText(field string, present bool) parser {
	return func(key string, value json.RawMessage) (check, error) {
		texts, err := oneOrMore(value)
		return text{key: key, field: field, present: present, texts: texts}, err
	}
}

func (c text) compare(r *result) []Difference {
	var got string
	if d := r.read(c.key, c.field, &got); d != nil {
		return d
	}
	var found []Difference
	for _, wanted := range c.texts {
		if strings.Contains(got, wanted) != c.present {
			found = append(found, differs(c.key, wanted, got)...)
		}
	}
	return found
}

// hash wants stdout to have this SHA-256.
type hash struct{ want string }

func parseHash(_ string, value json.RawMessage) (check, error) {
	var want string
	if err := strict(value, &want); err != nil {
		return nil, err
	}
	if raw, err := hex.DecodeString(want); err != nil || len(raw) != sha256.Size || want != strings.ToLower(want) {
		return nil, errors.New("not a SHA-256 in lower-case hex")
	}
	return hash{want: want}, nil
}

func (c hash) compare(r *result) []Difference {
	var stdout string
	if d := r.read("stdout_sha256", "stdout", &stdout); d != nil {
		return d
	}
	sum := sha256.Sum256([]byte(stdout))
	if got := hex.EncodeToString(sum[:]); got != c.want {
		return differs("stdout_sha256", c.want, got)
	}
	return nil
}

// atLeast wants a number field to be this or more.
type atLeast struct {
	key, field string
	min        float64
}

func parseAtLeast(field string) parser {
	return func(key string, value json.RawMessage) (check, error) {
		minimum, isNumber := number(value)
		if !isNumber {
			return nil, errors.New("not a number")
		}
		return atLeast{key: key, field: field, min: minimum}, nil
	}
}

func (c atLeast) compare(r *result) []Difference {
	got, found := r.fields[c.field]
	if !found {
		return differs(c.key, c.min, missing)
	}
	if n, isNumber := number(got); !isNumber || n < c.min {
		return differs(c.key, c.min, got)
	}
	return nil
}

// limitsHit wants all of these among the limits hit.
type limitsHit struct{ names []string }

func parseLimitsHit(_ string, value json.RawMessage) (check, error) {
	names, err := oneOrMore(value)
	return limitsHit{names: names}, err
}

func (c limitsHit) compare(r *result) []Difference {
	var got []string
	if d := r.read("limits_hit", "limits_hit", &got); d != nil {
		return d
	}
	for _, name := range c.names {
		if !slices.Contains(got, name) {
			return differs("limits_hit", c.names, got)
		}
	}
	return nil
}

// signalled wants the program to have died by this signal, or by none.
type signalled struct{ want json.RawMessage }

func parseSignal(_ string, value json.RawMessage) (check, error) {
	if _, err := signalName(value); err != nil {
		return nil, err
	}
	return signalled{want: value}, nil
}

func (c signalled) compare(r *result) []Difference {
	raw, found := r.fields["signal"]
	if !found {
		return differs("signal", c.want, missing)
	}
	want, _ := signalName(c.want) // parseSignal has read it before
	got, err := signalName(raw)
	if err != nil || got != want {
		return differs("signal", c.want, raw)
	}
	return nil
}

// signalName is the name of a signal given as number or name, empty for null.
func signalName(value json.RawMessage) (string, error) {
	if isNull(value) {
		return "", nil
	}
	name := strings.ToUpper(strings.Trim(string(bytes.TrimSpace(value)), `"`))
	if n, err := strconv.Atoi(name); err == nil {
		name = unix.SignalName(unix.Signal(max(n, -n)))
	} else if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	if unix.SignalNum(name) == 0 {
		return "", fmt.Errorf("no such signal: %s", value)
	}
	return name, nil
}

// tracer wants the tracer's report to say this.
type tracer struct{ want map[string]json.RawMessage }

func parseTracer(_ string, value json.RawMessage) (check, error) {
	var known struct {
		Complete *bool `json:"complete"`
		Detached *bool `json:"detached"`
	}
	if err := strict(value, &known); err != nil {
		return nil, err
	}
	want, err := object(value)
	return tracer{want: want}, err
}

func (c tracer) compare(r *result) []Difference {
	var got map[string]json.RawMessage
	if d := r.read("tracer", "tracer", &got); d != nil {
		return d
	}
	var found []Difference
	for _, key := range sortedKeys(c.want) {
		switch value, there := got[key]; {
		case !there:
			found = append(found, differs("tracer."+key, c.want[key], missing)...)
		case !same(c.want[key], value):
			found = append(found, differs("tracer."+key, c.want[key], value)...)
		}
	}
	return found
}
