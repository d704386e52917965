package trace

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// textDepth is how many containers Text opens inside one another. A value
// nested deeper without references in between, which no honest tracer writes,
// is cut at textFloor.
const (
	textDepth = 3
	textFloor = -4
)

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
