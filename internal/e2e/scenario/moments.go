package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
)

// record is the part of a trace that patterns look at.
type record struct {
	Files []struct {
		ID   int    `json:"id"`
		Path string `json:"path"`
	} `json:"files"`
	Functions []function `json:"functions"`
	Events    []event    `json:"events"`
}

type function struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
	File int    `json:"file"`
}

type event struct {
	Kind      string                     `json:"event"`
	Func      int                        `json:"func"`
	Frame     int                        `json:"frame"`
	Line      int                        `json:"line"`
	Vars      map[string]json.RawMessage `json:"vars"`
	Heap      map[string]json.RawMessage `json:"heap"`
	Value     json.RawMessage            `json:"value"`
	Exception *struct {
		Type string `json:"type"`
	} `json:"exception"`
}

// moment is one event with its ids resolved, and the frame's variables and
// all objects as they are then. The maps change with the next moment.
type moment struct {
	event
	function, file string
	variables      map[string]json.RawMessage
	heap           map[string]json.RawMessage
}

// replay calls visit for every event of the trace until it returns false. The
// changes are folded in, so that a variable keeps its last known value.
func (rec *record) replay(visit func(moment) bool) {
	files := map[int]string{}
	for _, f := range rec.Files {
		files[f.ID] = f.Path
	}
	functions := map[int]function{}
	for _, f := range rec.Functions {
		functions[f.ID] = f
	}
	heap := map[string]json.RawMessage{}
	frames := map[int]map[string]json.RawMessage{}
	for _, e := range rec.Events {
		for ref, object := range e.Heap {
			heap[ref] = object
		}
		variables := frames[e.Frame]
		if variables == nil {
			variables = map[string]json.RawMessage{}
			frames[e.Frame] = variables
		}
		for name, value := range e.Vars {
			if same(value, json.RawMessage(deleted)) {
				delete(variables, name)
			} else {
				variables[name] = value
			}
		}
		f := functions[e.Func]
		if !visit(moment{event: e, function: f.Name, file: files[f.File], variables: variables, heap: heap}) {
			return
		}
	}
}

// deleted is what a trace says of a variable that is gone.
const deleted = `["DEL"]`

// show is a moment for a person who wonders why nothing matched it. It does
// not change with the next moment.
func (m moment) show() map[string]any {
	shown := map[string]any{"event": m.Kind, "line": m.Line, "func": m.function, "file": m.file, "vars": maps.Clone(m.variables)}
	if m.Value != nil {
		shown["value"] = m.Value
	}
	if m.Exception != nil {
		shown["exception_type"] = m.Exception.Type
	}
	return shown
}

// refDepth is how many references deep a value is filled in.
const refDepth = 5

// expand replaces each ["REF", id] by the object it stands for.
func expand(value any, heap map[string]json.RawMessage, depth int) any {
	list, isList := value.([]any)
	if !isList || depth == 0 {
		return value
	}
	if len(list) == 2 && list[0] == "REF" {
		raw, found := heap[fmt.Sprint(list[1])]
		if !found {
			return nil
		}
		object, err := generic(raw)
		if err != nil {
			return nil
		}
		return expand(object, heap, depth-1)
	}
	filled := make([]any, len(list))
	for i, item := range list {
		filled[i] = expand(item, heap, depth)
	}
	return filled
}

// wantedValue is a JSON primitive, or a text to be found in the value's
// encoding. Its zero value wants nothing.
type wantedValue struct {
	exact    json.RawMessage
	contains string
}

// UnmarshalJSON reads a primitive or {"contains": "text"}. It is called for
// null too, so that a wanted null differs from nothing wanted.
func (w *wantedValue) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case '{':
		var inner struct {
			Contains string `json:"contains"`
		}
		if err := strict(data, &inner); err != nil {
			return err
		}
		if inner.Contains == "" {
			return errors.New("no text to look for")
		}
		w.contains = inner.Contains
	case '[':
		return errors.New(`a value is a primitive or {"contains": text}`)
	default:
		w.exact = bytes.Clone(data)
	}
	return nil
}

// MarshalJSON shows what is wanted as want.json has it.
func (w wantedValue) MarshalJSON() ([]byte, error) {
	if w.exact != nil {
		return w.exact, nil
	}
	return json.Marshal(map[string]string{"contains": w.contains})
}

// IsZero tells whether nothing is wanted.
func (w wantedValue) IsZero() bool { return w.exact == nil && w.contains == "" }

func (w wantedValue) fits(got json.RawMessage, heap map[string]json.RawMessage) bool {
	if w.exact != nil {
		return same(w.exact, got)
	}
	value, err := generic(got)
	return err == nil && strings.Contains(spaced(expand(value, heap, refDepth)), w.contains)
}

// pattern describes events. What it does not name may be anything.
type pattern struct {
	Event         *string                `json:"event,omitempty"`
	Line          *int                   `json:"line,omitempty"`
	Func          *string                `json:"func,omitempty"`
	File          *string                `json:"file,omitempty"`
	Vars          map[string]wantedValue `json:"vars,omitempty"`
	Value         wantedValue            `json:"value,omitzero"`
	ExceptionType *string                `json:"exception_type,omitempty"`
}

// parsePatterns reads a list of patterns.
func parsePatterns(value json.RawMessage) ([]pattern, error) {
	var patterns []pattern
	if err := strict(value, &patterns); err != nil {
		return nil, err
	}
	if len(patterns) == 0 {
		return nil, errors.New("no pattern")
	}
	return patterns, nil
}

// isNear tells whether a moment is of the wanted kind and line, which is worth
// showing when no moment matched.
func (p *pattern) isNear(m moment) bool {
	return (p.Event == nil || *p.Event == m.Kind) && (p.Line == nil || *p.Line == m.Line)
}

func (p *pattern) matches(m moment) bool {
	if !p.isNear(m) || p.Func != nil && *p.Func != m.function || p.File != nil && *p.File != m.file {
		return false
	}
	if p.ExceptionType != nil && (m.Exception == nil || !fitsName(*p.ExceptionType, m.Exception.Type)) {
		return false
	}
	if !p.Value.IsZero() && !p.Value.fits(orNull(m.Value), m.heap) {
		return false
	}
	for name, want := range p.Vars {
		got, found := m.variables[name]
		if !found || !want.fits(got, m.heap) {
			return false
		}
	}
	return true
}

func orNull(value json.RawMessage) json.RawMessage {
	if value == nil {
		return json.RawMessage("null")
	}
	return value
}
