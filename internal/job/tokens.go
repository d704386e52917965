package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
)

// tokens reads the tokens of a JSON document one by one, with the methods of json.Decoder and one for keys.
type tokens interface {
	// Token returns the next token, or io.EOF.
	Token() (json.Token, error)
	// Key returns the next token, which is a key.
	Key() (string, error)
	// More tells whether the current object or array has another member.
	More() bool
	// InputOffset is where the last token ended.
	InputOffset() int64
}

var (
	_ tokens = anyTokens{}
	_ tokens = (*validTokens)(nil)
)

// anyTokens reads any bytes.
type anyTokens struct{ *json.Decoder }

// Key returns the next token, which should be a key.
func (t anyTokens) Key() (string, error) {
	token, err := t.Token()
	if err != nil {
		return "", err
	}
	key, ok := token.(string)
	if !ok {
		return "", errors.New("a key must be a string")
	}
	return key, nil
}

// validTokens reads a document in UTF-8 that json.Valid has approved of, so it meets no broken syntax. It gives what json.Decoder
// gives with UseNumber, at a fifth of the cost: that one makes an error for each token, because none is a document of its own.
type validTokens struct {
	data []byte
	at   int
}

// Token returns the next token, or io.EOF.
func (t *validTokens) Token() (json.Token, error) {
	if t.skipTo(); t.at >= len(t.data) {
		return nil, io.EOF
	}
	start := t.at
	switch c := t.data[start]; c {
	case '{', '}', '[', ']':
		t.at++
		return json.Delim(c), nil
	case '"':
		return t.str()
	case 't', 'n':
		t.at += len("true") // as long as null
		if c == 'n' {
			return nil, nil
		}
		return true, nil
	case 'f':
		t.at += len("false")
		return false, nil
	}
	for t.at < len(t.data) && !endsNumber(t.data[t.at]) {
		t.at++
	}
	return json.Number(t.data[start:t.at]), nil
}

// Key returns the next token, which is a key.
func (t *validTokens) Key() (string, error) {
	t.skipTo()
	start := t.at + 1
	if end := bytes.IndexByte(t.data[start:], '"'); end >= 0 {
		if name := keyName(t.data[start : start+end]); name != "" {
			t.at = start + end + 1
			return name, nil
		}
	}
	return t.str()
}

// keyName returns a key that every stored job has, which need not be made anew.
func keyName(raw []byte) string {
	switch string(raw) {
	case "wall_ms":
		return "wall_ms"
	case "cpu_ms":
		return "cpu_ms"
	case "memory_bytes":
		return "memory_bytes"
	case "output_bytes":
		return "output_bytes"
	case "processes":
		return "processes"
	case "open_files":
		return "open_files"
	case "file_bytes":
		return "file_bytes"
	case "trace_events":
		return "trace_events"
	case "trace_bytes":
		return "trace_bytes"
	case "language":
		return "language"
	case "entrypoint":
		return "entrypoint"
	case "files":
		return "files"
	case "stdin":
		return "stdin"
	case "args":
		return "args"
	case "limits":
		return "limits"
	case "trace":
		return "trace"
	case "mode":
		return "mode"
	case "values":
		return "values"
	case "include":
		return "include"
	case "queue":
		return "queue"
	case "tenant":
		return "tenant"
	case "id":
		return "id"
	case "name":
		return "name"
	case "labels":
		return "labels"
	case "retention_s":
		return "retention_s"
	}
	return ""
}

// str reads a string, which may have escapes.
func (t *validTokens) str() (string, error) {
	start, escapes := t.at, 0
	for t.at++; t.data[t.at] != '"'; t.at++ {
		if t.data[t.at] == '\\' {
			escapes++
			t.at++
		}
	}
	t.at++
	raw := t.data[start:t.at]
	if escapes == 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	if s, ok := unescape(raw[1:len(raw)-1], escapes); ok {
		return s, nil
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}

// unescape replaces so many escapes of one letter, such as the ends of lines. It tells false when there is another one.
func unescape(raw []byte, escapes int) (string, bool) {
	const letters, meanings = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	s := make([]byte, 0, len(raw)-escapes)
	for {
		at := bytes.IndexByte(raw, '\\')
		if at < 0 {
			return string(append(s, raw...)), true
		}
		letter := strings.IndexByte(letters, raw[at+1])
		if letter < 0 {
			return "", false
		}
		s = append(append(s, raw[:at]...), meanings[letter])
		raw = raw[at+2:]
	}
}

// More tells whether the current object or array has another member.
func (t *validTokens) More() bool {
	t.skipTo()
	return t.at < len(t.data) && t.data[t.at] != ']' && t.data[t.at] != '}'
}

// InputOffset is where the last token ended, or behind it, before the next one.
func (t *validTokens) InputOffset() int64 { return int64(t.at) }

// skipTo moves to the next token.
func (t *validTokens) skipTo() {
	for t.at < len(t.data) && separates(t.data[t.at]) {
		t.at++
	}
}

// separates tells what stands between tokens.
func separates(c byte) bool {
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',' || c == ':'
}

func endsNumber(c byte) bool { return separates(c) || c == ']' || c == '}' }

// loneSurrogate tells whether a raw JSON string has an escaped surrogate
// without its other half. JSON has a spelling for it, Unicode text has not.
func loneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++ // the escaped character; a second backslash escapes nothing
		unit, ok := unicodeEscape(raw, i)
		switch {
		case !ok || unit < 0xD800 || unit > 0xDFFF:
			continue
		case unit >= 0xDC00:
			return true
		}
		low, ok := unicodeEscape(raw, i+6)
		if !ok || raw[i+5] != '\\' || low < 0xDC00 || low > 0xDFFF {
			return true
		}
		i += 10
	}
	return false
}

// unicodeEscape reads "uXXXX" at raw[i:].
func unicodeEscape(raw []byte, i int) (uint64, bool) {
	if i+5 > len(raw) || raw[i] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[i+1:i+5]), 16, 16)
	return n, err == nil
}
