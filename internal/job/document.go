package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// document reads one JSON document strictly. encoding/json alone is too
// forgiving for input from strangers: it matches keys without regard to case,
// lets the last of two equal keys win, and turns broken UTF-8 and lone
// surrogates into U+FFFD. A wrong value is noted as a fault and skipped, so that
// one reading reports every fault; broken syntax ends the reading.
type document struct {
	data   []byte
	dec    tokens
	faults faults
}

// maxMembers bounds one object or array. It is far above every bound of a
// Job, and keeps a hostile document from filling memory with what will be refused anyway.
const maxMembers = 4096

// errStop ends the reading; its fault was noted where it was met.
var errStop = errors.New("reading stopped")

// newTokens reads data, which is UTF-8. valid tells that they are one JSON document.
func newTokens(data []byte) (t tokens, valid bool) {
	if json.Valid(data) {
		return &validTokens{data: data}, true
	}
	// It will be refused, but for what, and where, only a reading tells.
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return anyTokens{dec}, false
}

// token reads the next token of the value at path.
func (d *document) token(path string) (json.Token, error) {
	before := d.dec.InputOffset()
	tok, err := d.dec.Token()
	if err != nil {
		return nil, d.syntaxFault(path, err)
	}
	if _, ok := tok.(string); ok && loneSurrogate(d.data[before:d.dec.InputOffset()]) {
		d.faults.add(path, "must not hold half of a surrogate pair")
	}
	return tok, nil
}

func (d *document) syntaxFault(path string, err error) error {
	offset, reason := d.dec.InputOffset(), err.Error()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		offset, reason = int64(len(d.data)), "unexpected end"
	}
	// The token reader counts the offset of an error from some earlier token;
	// only a reading of the whole knows the place. It is just behind the wrong byte.
	var syntax *json.SyntaxError
	if whole := json.Unmarshal(d.data, new(json.RawMessage)); errors.As(whole, &syntax) && syntax.Offset > 0 && reason != "unexpected end" {
		offset = syntax.Offset - 1
	}
	line, column := position(d.data, offset)
	d.faults.add(path, "not valid JSON at line %d, column %d: %s", line, column, reason)
	return errStop
}

// object reads an object and calls field for each key with the path of its
// value, which field must read or skip.
func (d *document) object(path string, field func(key, path string) error) error {
	tok, err := d.token(path)
	if err != nil {
		return err
	}
	if tok != json.Delim('{') {
		d.typeFault(path, "an object", tok)
		return d.skipFrom(path, tok)
	}
	var seen keySet
	for d.dec.More() {
		if err := d.member(path, &seen, field); err != nil {
			return err
		}
	}
	_, err = d.token(path)
	return err
}

func (d *document) member(path string, seen *keySet, field func(key, path string) error) error {
	before := d.dec.InputOffset()
	key, err := d.dec.Key()
	if err != nil {
		return d.syntaxFault(path, err)
	}
	at := join(path, key)
	if loneSurrogate(d.data[before:d.dec.InputOffset()]) {
		d.faults.add(at, "must not hold half of a surrogate pair")
	}
	if seen.has(key) {
		d.faults.add(at, "given twice")
		return d.skip(at)
	}
	if seen.n == maxMembers {
		d.faults.add(path, "has more than %d members", maxMembers)
		return errStop
	}
	seen.add(key)
	return field(key, at)
}

// keySet is a set of keys that costs little while it is small.
type keySet struct {
	few  [fewKeys]string
	n    int
	many map[string]bool // those that few has no place for
}

// fewKeys is how many keys are compared one by one.
const fewKeys = 16

func (s *keySet) has(key string) bool {
	return slices.Contains(s.few[:min(s.n, fewKeys)], key) || s.many[key]
}

func (s *keySet) add(key string) {
	switch {
	case s.n < fewKeys:
		s.few[s.n] = key
	case s.many == nil:
		s.many = map[string]bool{key: true}
	default:
		s.many[key] = true
	}
	s.n++
}

// array reads an array and calls item for each element, which item must read or skip.
func (d *document) array(path string, item func(path string) error) error {
	tok, err := d.token(path)
	if err != nil {
		return err
	}
	if tok != json.Delim('[') {
		d.typeFault(path, "an array", tok)
		return d.skipFrom(path, tok)
	}
	for i := 0; d.dec.More(); i++ {
		if i == maxMembers {
			d.faults.add(path, "has more than %d members", maxMembers)
			return errStop
		}
		if err := item(path + "[" + strconv.Itoa(i) + "]"); err != nil {
			return err
		}
	}
	_, err = d.token(path)
	return err
}

// text reads a string into to, which keeps its value when the document's is wrong.
func (d *document) text(path string, to *string) error {
	tok, err := d.token(path)
	if err != nil {
		return err
	}
	if s, ok := tok.(string); ok {
		*to = s
		return nil
	}
	d.typeFault(path, "a string", tok)
	return d.skipFrom(path, tok)
}

// boolean reads true or false into to.
func (d *document) boolean(path string, to *bool) error {
	tok, err := d.token(path)
	if err != nil {
		return err
	}
	if b, ok := tok.(bool); ok {
		*to = b
		return nil
	}
	d.typeFault(path, "true or false", tok)
	return d.skipFrom(path, tok)
}

// integer reads a whole number into to.
func (d *document) integer(path string, to *int64) error {
	tok, err := d.token(path)
	if err != nil {
		return err
	}
	num, ok := tok.(json.Number)
	if !ok {
		d.typeFault(path, "a whole number", tok)
		return d.skipFrom(path, tok)
	}
	n, err := wholeNumber(string(num))
	if err != nil {
		d.faults.add(path, "%v, got %s", err, shorten(string(num), 40))
		return nil
	}
	*to = n
	return nil
}

// texts reads an array of strings into to.
func (d *document) texts(path string, to *[]string) error {
	items := []string{}
	err := d.array(path, func(path string) error {
		var s string
		if err := d.text(path, &s); err != nil {
			return err
		}
		items = append(items, s)
		return nil
	})
	*to = items
	return err
}

// textMap reads an object whose values are strings into to.
func (d *document) textMap(path string, to *map[string]string) error {
	values := make(map[string]string)
	err := d.object(path, func(key, at string) error {
		var s string
		if err := d.text(at, &s); err != nil {
			return err
		}
		values[key] = s
		return nil
	})
	*to = values
	return err
}

// skip reads over the next value.
func (d *document) skip(path string) error {
	tok, err := d.dec.Token()
	if err != nil {
		return d.syntaxFault(path, err)
	}
	return d.skipFrom(path, tok)
}

// skipFrom reads over the rest of the value that began with tok.
func (d *document) skipFrom(path string, tok json.Token) error {
	for depth := 0; ; {
		switch tok {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth <= 0 {
			return nil
		}
		var err error
		if tok, err = d.dec.Token(); err != nil {
			return d.syntaxFault(path, err)
		}
	}
}

// end checks that nothing but white space follows.
func (d *document) end() error {
	if _, err := d.dec.Token(); !errors.Is(err, io.EOF) {
		d.faults.add("", "must hold one JSON document and nothing behind it")
		return errStop
	}
	return nil
}

func (d *document) typeFault(path, want string, tok json.Token) {
	if tok == nil {
		d.faults.add(path, "must be %s, got null; leave the field out to get its default", want)
		return
	}
	d.faults.add(path, "must be %s, got %s", want, kindOf(tok))
}

func kindOf(tok json.Token) string {
	switch t := tok.(type) {
	case json.Delim:
		if t == '{' {
			return "an object"
		}
		return "an array"
	case string:
		return "a string"
	case bool:
		return strconv.FormatBool(t)
	default:
		return "a number"
	}
}

// wholeNumber parses a JSON number that is written without a fraction; an
// exponent must not be negative, so that the number is whole by its spelling alone.
func wholeNumber(s string) (int64, error) {
	if strings.ContainsRune(s, '.') || strings.Contains(strings.ToLower(s), "e-") {
		return 0, errors.New("must be a whole number")
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	// Whole doubles below 2^53 are exact; every bound in this package is far lower.
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f >= 1<<53 || f <= -(1<<53) {
		return 0, errors.New("is out of range")
	}
	return int64(f), nil
}

// join appends a key to a path: a plain name behind a dot, anything else quoted.
func join(path, key string) string {
	plain := key != "" && len(key) <= 64 && path != "files" && path != "labels"
	for _, r := range key {
		plain = plain && (r == '_' || r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)))
	}
	switch {
	case !plain:
		return path + "[" + strconv.QuoteToASCII(shorten(key, 80)) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// shorten cuts s to about n bytes, on a character boundary, and says so.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// position turns a byte offset into a line and a column, both from 1. The
// column counts bytes.
func position(data []byte, offset int64) (line, column int) {
	head := data[:min(max(offset, 0), int64(len(data)))]
	return 1 + bytes.Count(head, []byte("\n")), len(head) - bytes.LastIndexByte(head, '\n')
}

// notUTF8 describes where data stops being UTF-8.
func notUTF8(data []byte) string {
	at := 0
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return fmt.Sprintf("must be UTF-8, byte %d is not", at)
}
