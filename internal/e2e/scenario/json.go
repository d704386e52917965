package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// object reads one JSON object and refuses a key that is there twice: the
// second one would silently replace the first one.
func object(data []byte) (map[string]json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if token, err := decoder.Token(); err != nil {
		return nil, err
	} else if token != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	fields := map[string]json.RawMessage{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key := token.(string) // inside an object a token before a value is its key
		if _, twice := fields[key]; twice {
			return nil, fmt.Errorf("key %q twice", key)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		fields[key] = value
	}
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	return fields, atEnd(decoder)
}

// doubledKey returns an error when an object anywhere in a JSON text has a key
// twice.
func doubledKey(decoder *json.Decoder) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	opened, isDelim := token.(json.Delim)
	if !isDelim {
		return nil
	}
	seen := map[string]bool{}
	for decoder.More() {
		if opened == '{' {
			token, err := decoder.Token()
			if err != nil {
				return err
			}
			key := token.(string) // inside an object a token before a value is its key
			if seen[key] {
				return fmt.Errorf("key %q twice", key)
			}
			seen[key] = true
		}
		if err := doubledKey(decoder); err != nil {
			return err
		}
	}
	_, err = decoder.Token() // the closing one
	return err
}

// strict decodes one JSON value and refuses unknown keys.
func strict(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	return atEnd(decoder)
}

func atEnd(decoder *json.Decoder) error {
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more after the JSON value")
	}
	return nil
}

// generic decodes JSON into maps, slices and json.Number, so that 1, 1.0 and
// true stay three different values.
func generic(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return value, atEnd(decoder)
}

// same tells whether two JSON texts are the same value, types included.
func same(a, b json.RawMessage) bool {
	left, err := generic(a)
	if err != nil {
		return false
	}
	right, err := generic(b)
	return err == nil && reflect.DeepEqual(left, right)
}

// number reads a JSON number; a string that looks like one is none.
func number(data json.RawMessage) (float64, bool) {
	value, err := generic(data)
	if err != nil {
		return 0, false
	}
	n, isNumber := value.(json.Number)
	if !isNumber {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

func isNull(data json.RawMessage) bool { return string(bytes.TrimSpace(data)) == "null" }

// spaced writes a generic value as one line of JSON with a space after each
// comma and colon, the form in which want.json quotes parts of values.
func spaced(value any) string {
	var out strings.Builder
	writeSpaced(&out, value)
	return out.String()
}

func writeSpaced(out *strings.Builder, value any) {
	switch v := value.(type) {
	case []any:
		out.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				out.WriteString(", ")
			}
			writeSpaced(out, item)
		}
		out.WriteByte(']')
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		sort.Strings(keys)
		out.WriteByte('{')
		for i, key := range keys {
			if i > 0 {
				out.WriteString(", ")
			}
			writeScalar(out, key)
			out.WriteString(": ")
			writeSpaced(out, v[key])
		}
		out.WriteByte('}')
	default:
		writeScalar(out, v)
	}
}

func writeScalar(out *strings.Builder, value any) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	// What generic decoded can always be encoded again.
	_ = encoder.Encode(value)
	out.WriteString(strings.TrimSuffix(text.String(), "\n"))
}

// loneSurrogate tells whether a JSON text escapes half of a surrogate pair,
// which no UTF-8 text can hold and Go's decoder would silently replace.
func loneSurrogate(data []byte) bool {
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		unit, isUnit := escapedUnit(data[i:])
		if !isUnit {
			i++ // skips the escaped character, so that "\\ud800" is not taken for an escape
			continue
		}
		i += 5
		switch {
		case unit >= 0xDC00 && unit < 0xE000:
			return true
		case unit >= 0xD800 && unit < 0xDC00:
			low, isUnit := escapedUnit(data[i+1:])
			if !isUnit || low < 0xDC00 || low > 0xDFFF {
				return true
			}
			i += 6
		}
	}
	return false
}

// escapedUnit reads \uXXXX at the start of data.
func escapedUnit(data []byte) (uint16, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	return uint16(unit), err == nil
}
