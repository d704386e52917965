package trace

import (
	"encoding/json"
	"strconv"
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
