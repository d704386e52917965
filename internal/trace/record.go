package trace

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// recordFormat is the first byte of an area with JSON records, the only
// format so far.
const recordFormat = 1

// maxRecord bounds the payload of one record. The longest a tracer writes is the
// report of an exception, or the definition of a function with very many lines.
const maxRecord = 1 << 20

var (
	errFormat = errors.New("unknown record format")
	errFrame  = errors.New("a record's length does not fit")
	errASCII  = errors.New("a record is not ASCII")
	errRecord = errors.New("a record has the wrong form")
)

// records calls each for the payload of every record of an area, until there
// are no more or one is bad. An area that was never written to has none. The
// payload is UTF-8 JSON text of the callee's own.
func records(area []byte, each func(payload []byte) error) error {
	if len(area) == 0 {
		return nil
	}
	if area[0] != recordFormat {
		return errFormat
	}
	rest := area[1:]
	for len(rest) > 0 {
		if len(rest) < 4 {
			return errFrame
		}
		n := binary.LittleEndian.Uint32(rest)
		if n > maxRecord || int(n) > len(rest)-4 {
			return errFrame
		}
		payload, err := unescape(rest[4 : 4+n])
		if err != nil {
			return err
		}
		if err := each(payload); err != nil {
			return err
		}
		rest = rest[4+n:]
	}
	return nil
}

// unescape returns JSON text with its \u escapes written as UTF-8, except
// where JSON needs them. A lone surrogate, which UTF-8 cannot hold, becomes
// U+FFFD. Text that is not ASCII is an error: a tracer writes none.
func unescape(text []byte) ([]byte, error) {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			return nil, errASCII
		}
		if c != '\\' || i+1 == len(text) {
			out = append(out, c)
			i++
			continue
		}
		r, ok := escaped(text[i:])
		if !ok {
			out = append(out, c, text[i+1])
			i += 2
			continue
		}
		i += 6
		if utf16.IsSurrogate(r) {
			low, _ := escaped(text[i:])
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				i += 6
			}
		}
		if r < ' ' || r == '"' || r == '\\' {
			out = append(out, text[i-6:i]...)
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return out, nil
}

// escaped reads the \uXXXX that text starts with.
func escaped(text []byte) (r rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	for _, c := range text[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// items splits a JSON array.
func items(raw []byte) ([]json.RawMessage, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errRecord
	}
	return list, nil
}

// maxSafe is the largest integer that every reader of JSON keeps exact.
const maxSafe = 1<<53 - 1

// integer reads a JSON integer from low to high.
func integer(raw json.RawMessage, low, high int64) (int64, error) {
	var n int64
	if err := json.Unmarshal(raw, &n); err != nil || raw[0] == 'n' || n < low || n > high {
		return 0, errRecord
	}
	return n, nil
}

// text reads a JSON string of at most limit bytes.
func text(raw json.RawMessage, limit int) (string, error) {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil || raw[0] != '"' || len(s) > limit {
		return "", errRecord
	}
	return s, nil
}
