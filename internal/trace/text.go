package trace

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// textDepth is how many containers Text opens inside one another. A value
// nested deeper without references in between, which no honest tracer writes,
// is cut at textFloor.
const (
	textDepth = 3
	textFloor = -4
)

// Objects is the shown heap as it stands at one point of a trace, by reference
// number. It is not safe for use by several goroutines at once.
type Objects map[int]Value

// Apply brings o up to date with what e says of the heap.
func (o Objects) Apply(e Event) {
	for _, entry := range e.Heap {
		o[entry.Ref] = entry.Value
	}
}

// Text writes v as Python would print it, on one line, in at most limit
// characters; what does not fit is replaced by "…". The text holds no control
// characters, whatever v holds. Unknown encodings are shown as they are, in angle brackets.
func (o Objects) Text(v Value, limit int) string {
	w := textWriter{objects: o, left: limit}
	w.value(v, textDepth)
	if !w.full {
		return w.out.String()
	}
	runes := []rune(w.out.String())
	return string(runes[:min(len(runes), max(0, limit-1))]) + "…"
}

// Reaches tells whether v is or holds, a few levels down, the object with the
// reference number ref.
func (o Objects) Reaches(v Value, ref int) bool {
	return o.reaches(v, ref, 2*textDepth, map[int]bool{})
}

func (o Objects) reaches(v Value, ref, depth int, seen map[int]bool) bool {
	if depth == 0 || len(v) == 0 || v[0] != '[' {
		return false
	}
	items, ok := list(v)
	if !ok {
		return false
	}
	if n, isRef := refOf(items); isRef {
		if n == ref {
			return true
		}
		if seen[n] {
			return false
		}
		seen[n] = true
		return o.reaches(o[n], ref, depth-1, seen)
	}
	for _, item := range items {
		if o.reaches(item, ref, depth-1, seen) {
			return true
		}
	}
	return false
}

// IsReference tells whether v is the object with the reference number ref.
func IsReference(v Value, ref int) bool {
	items, _ := list(v)
	n, isRef := refOf(items)
	return isRef && n == ref
}

// Deleted tells whether v says that the variable was deleted.
func Deleted(v Value) bool { return string(v) == `["DEL"]` }

// textWriter builds one text within a budget of characters. Once the budget is
// spent every further write is dropped, so a huge value costs no more than a small one.
type textWriter struct {
	objects Objects
	out     strings.Builder
	left    int
	full    bool
	open    []int // references being written, to stop at a cycle
}

// write adds s with what cannot be printed escaped.
func (w *textWriter) write(s string) {
	if w.full {
		return
	}
	s = clean(s)
	if n := utf8.RuneCountInString(s); n <= w.left {
		w.left -= n
		w.out.WriteString(s)
		return
	}
	w.full = true
	w.out.WriteString(string([]rune(s)[:w.left]))
}

func (w *textWriter) value(v Value, depth int) {
	if w.full {
		return
	}
	text := strings.TrimSpace(string(v))
	switch {
	case depth < textFloor:
		w.write("…")
	case text == "" || text == "null":
		w.write("None")
	case text == "true":
		w.write("True")
	case text == "false":
		w.write("False")
	case text[0] == '"':
		w.write(PythonString(str(v)))
	case text[0] == '[':
		if items, ok := list(v); ok && len(items) > 0 && str(items[0]) != "" {
			w.tagged(items, depth)
			return
		}
		w.write("<?>")
	case text[0] == '{':
		w.write("<?>")
	default:
		w.write(text)
	}
}

// tagged writes an encoded value or heap entry: a list whose first item names its kind.
func (w *textWriter) tagged(items []Value, depth int) {
	tag, rest := str(items[0]), items[1:]
	switch tag {
	case "REF":
		w.reference(items, depth)
	case "LIST":
		w.sequence("[", rest, "]", depth)
	case "TUPLE":
		closing := ")"
		if len(rest) == 1 {
			closing = ",)"
		}
		w.sequence("(", rest, closing, depth)
	case "SET", "FROZENSET":
		w.set(tag, rest, depth)
	case "DICT":
		w.write("{")
		w.pairs(rest, ": ", depth, func(key Value) { w.value(key, depth-1) })
		w.write("}")
	case "INSTANCE":
		w.instance(rest, depth)
	case "INSTANCE_PPRINT":
		w.write(word(rest, 1))
	case "CLASS":
		w.write("<class " + word(rest, 0) + ">")
	case "FUNCTION":
		w.write("<function " + word(rest, 0) + ">")
	case "MODULE", "module":
		w.write(strings.TrimRight("<module "+word(rest, 0), " ") + ">")
	case "DEL":
		w.write("(deleted)")
	default:
		w.scalar(tag, rest)
	}
}

// scalar writes the values that are bounded or have no form of their own in JSON.
func (w *textWriter) scalar(tag string, rest []Value) {
	switch tag {
	case "SPECIAL_FLOAT":
		w.write(map[string]string{"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan"}[word(rest, 0)])
	case "STR":
		w.write(PythonString(word(rest, 0)))
		w.write(fmt.Sprintf("… (%s characters)", word(rest, 1)))
	case "BYTES":
		w.bytes(rest)
	case "BIGINT":
		if len(rest) > 0 && rest[0][0] == '"' {
			w.write(word(rest, 0))
			return
		}
		w.write("<int of " + word(rest, 0) + " bits>")
	case "ELIDED":
		w.write("… " + word(rest, 0) + " more")
	case "HEAP_PRIMITIVE":
		w.write(word(rest, 1))
	case "IMPORTED_FAUX_PRIMITIVE":
		w.write("<" + word(rest, 0) + ">")
	default:
		words := []string{tag}
		for i := range rest {
			words = append(words, word(rest, i))
		}
		w.write("<" + strings.Join(words, " ") + ">")
	}
}

// reference writes the object that items refer to, or a short form of it where
// the text is deep enough already or would go round in a circle.
func (w *textWriter) reference(items []Value, depth int) {
	ref, _ := refOf(items)
	entry, ok := list(w.objects[ref])
	if !ok || len(entry) == 0 || str(entry[0]) == "REF" {
		w.write("…")
		return
	}
	again := slices.Contains(w.open, ref)
	if again || depth <= 0 && len(entry) > 1 {
		switch str(entry[0]) {
		case "LIST":
			w.write("[…]")
			return
		case "TUPLE":
			w.write("(…)")
			return
		case "SET", "FROZENSET", "DICT":
			w.write("{…}")
			return
		case "INSTANCE":
			w.write("<" + word(entry[1:], 0) + ">")
			return
		}
	}
	if again {
		w.write("…")
		return
	}
	w.open = append(w.open, ref)
	w.tagged(entry, depth)
	w.open = w.open[:len(w.open)-1]
}

func (w *textWriter) sequence(opening string, items []Value, closing string, depth int) {
	w.write(opening)
	for i, item := range items {
		if w.full {
			return
		}
		if i > 0 {
			w.write(", ")
		}
		w.value(item, depth-1)
	}
	w.write(closing)
}

func (w *textWriter) set(tag string, items []Value, depth int) {
	opening, closing := "{", "}"
	if tag == "FROZENSET" {
		opening, closing = "frozenset({", "})"
	}
	if len(items) == 0 {
		w.write(strings.ToLower(tag) + "()")
		return
	}
	w.sequence(opening, items, closing, depth)
}

// pairs writes [key, value] items; an item of another form (ELIDED) is written as a value.
func (w *textWriter) pairs(items []Value, between string, depth int, writeKey func(Value)) {
	for i, item := range items {
		if w.full {
			return
		}
		if i > 0 {
			w.write(", ")
		}
		pair, ok := list(item)
		if !ok || len(pair) != 2 || str(pair[0]) == "ELIDED" {
			w.value(item, depth-1)
			continue
		}
		writeKey(pair[0])
		w.write(between)
		w.value(pair[1], depth-1)
	}
}

func (w *textWriter) instance(rest []Value, depth int) {
	w.write("<" + word(rest, 0))
	if len(rest) > 1 {
		w.write(" ")
		w.pairs(rest[1:], "=", depth, func(name Value) { w.write(str(name)) })
	}
	w.write(">")
}

func (w *textWriter) bytes(rest []Value) {
	data, err := hex.DecodeString(word(rest, 0))
	if err != nil {
		w.write("<bytes>")
		return
	}
	w.write(PythonBytes(data))
	if n, err := strconv.Atoi(word(rest, 1)); err == nil && n > len(data) {
		w.write(fmt.Sprintf("… (%d bytes)", n))
	}
}

// PythonString writes s as a Python string literal, the way repr does.
func PythonString(s string) string {
	quote := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		quote = '"'
	}
	var out strings.Builder
	out.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			out.WriteRune('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		default:
			out.WriteString(printable(r))
		}
	}
	out.WriteRune(quote)
	return out.String()
}

// PythonBytes writes b as a Python bytes literal, the way repr does.
func PythonBytes(b []byte) string {
	quote := byte('\'')
	if strings.IndexByte(string(b), '\'') >= 0 && strings.IndexByte(string(b), '"') < 0 {
		quote = '"'
	}
	out := []byte{'b', quote}
	for _, c := range b {
		switch {
		case c == quote || c == '\\':
			out = append(out, '\\', c)
		case c == '\n':
			out = append(out, `\n`...)
		case c == '\r':
			out = append(out, `\r`...)
		case c == '\t':
			out = append(out, `\t`...)
		case c < ' ' || c > '~':
			out = fmt.Appendf(out, `\x%02x`, c)
		default:
			out = append(out, c)
		}
	}
	return string(append(out, quote))
}

// clean replaces what cannot be printed by its Python escape.
func clean(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		out.WriteString(printable(r))
	}
	return out.String()
}

func printable(r rune) string {
	switch {
	case unicode.IsPrint(r):
		return string(r)
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// list splits a JSON array into its items.
func list(v Value) ([]Value, bool) {
	if len(v) == 0 {
		return nil, false
	}
	var items []Value
	err := json.Unmarshal(v, &items)
	return items, err == nil && items != nil
}

// str decodes a JSON string; anything else gives "".
func str(v Value) string {
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// word gives the i-th item as plain text: a string decoded, anything else as
// its JSON; "" when there is none.
func word(items []Value, i int) string {
	if i >= len(items) {
		return ""
	}
	if len(items[i]) > 0 && items[i][0] == '"' {
		return str(items[i])
	}
	return string(items[i])
}

// refOf tells whether items are a reference, and to which object.
func refOf(items []Value) (int, bool) {
	if len(items) != 2 || str(items[0]) != "REF" {
		return 0, false
	}
	n, err := strconv.Atoi(string(items[1]))
	return n, err == nil
}

// Attributes lists what the class that v refers to is shown to have, as far as it is; nil when v is no class.
func (o Objects) Attributes(v Value) Vars {
	items, _ := list(v)
	ref, isRef := refOf(items)
	entry, _ := list(o[ref])
	const head = 3 // the tag, the name, the bases
	if !isRef || len(entry) < head || str(entry[0]) != "CLASS" {
		return nil
	}
	attributes := Vars{}
	for _, item := range entry[head:] {
		if pair, ok := list(item); ok && len(pair) == 2 && str(pair[0]) != "ELIDED" {
			attributes = append(attributes, Var{Name: str(pair[0]), Value: pair[1]})
		}
	}
	return attributes
}

// gapsOf returns a function that is to be called for each event of t in turn, and
// tells whether events are missing between it and the one before.
func gapsOf(t *Trace) func(Event) bool {
	gaps := t.Gaps
	return func(e Event) bool {
		found := false
		for len(gaps) > 0 && gaps[0].AfterSeq < e.Seq {
			found = found || gaps[0].Skipped != 0
			gaps = gaps[1:]
		}
		return found
	}
}
