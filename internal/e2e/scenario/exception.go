package scenario

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// raised is an exception of a result, or one in another's chain.
type raised struct {
	Type      string   `json:"type"`
	Message   string   `json:"message"`
	File      string   `json:"file"`
	Line      int      `json:"line"`
	Function  string   `json:"function"`
	Traceback []frame  `json:"traceback"`
	Cause     *raised  `json:"cause"`
	Context   *raised  `json:"context"`
	Group     []raised `json:"group"`
}

type frame struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// typeOf is the exception's type, nil for no exception.
func typeOf(e *raised) *string {
	if e == nil {
		return nil
	}
	return &e.Type
}

// noException wants that no exception ended the program.
type noException struct{}

func (noException) compare(r *result) []Difference {
	got, found := r.fields["exception"]
	switch {
	case !found:
		return differs("exception", nil, missing)
	case !isNull(got):
		return differs("exception", nil, got)
	}
	return nil
}

// exception wants an exception with these properties. The keys that want.json
// does not name are nil. A cause or context of null wants none.
type exception struct {
	Type           *string         `json:"type,omitempty"`
	MessageHas     *string         `json:"message_contains,omitempty"`
	File           *string         `json:"file,omitempty"`
	Line           *int            `json:"line,omitempty"`
	Function       *string         `json:"function,omitempty"`
	CauseType      json.RawMessage `json:"cause_type,omitempty"`
	ContextType    json.RawMessage `json:"context_type,omitempty"`
	GroupTypes     []string        `json:"group_types,omitempty"`
	TracebackLines []int           `json:"traceback_lines,omitempty"`
}

func parseException(_ string, value json.RawMessage) (check, error) {
	if isNull(value) {
		return noException{}, nil
	}
	var want exception
	if err := strict(value, &want); err != nil {
		return nil, err
	}
	for _, name := range []json.RawMessage{want.CauseType, want.ContextType} {
		var text *string
		if name != nil && json.Unmarshal(name, &text) != nil {
			return nil, errors.New("a type is a name or null")
		}
	}
	return want, nil
}

func (c exception) compare(r *result) []Difference {
	var got *raised
	if d := r.read("exception", "exception", &got); d != nil {
		return d
	}
	if got == nil {
		return differs("exception", c, nil)
	}
	var found []Difference
	expect := func(key string, fits bool, want, seen any) {
		if !fits {
			found = append(found, differs("exception."+key, want, seen)...)
		}
	}
	if c.Type != nil {
		expect("type", fitsName(*c.Type, got.Type), *c.Type, got.Type)
	}
	if c.MessageHas != nil {
		expect("message_contains", strings.Contains(got.Message, *c.MessageHas), *c.MessageHas, got.Message)
	}
	if c.File != nil {
		expect("file", *c.File == got.File, *c.File, got.File)
	}
	if c.Line != nil {
		expect("line", *c.Line == got.Line, *c.Line, got.Line)
	}
	if c.Function != nil {
		expect("function", fitsName(*c.Function, got.Function), *c.Function, got.Function)
	}
	if c.CauseType != nil {
		expect("cause_type", fitsType(c.CauseType, got.Cause), c.CauseType, typeOf(got.Cause))
	}
	if c.ContextType != nil {
		expect("context_type", fitsType(c.ContextType, got.Context), c.ContextType, typeOf(got.Context))
	}
	if c.GroupTypes != nil {
		types := groupTypes(got.Group)
		expect("group_types", slices.Equal(c.GroupTypes, types), c.GroupTypes, types)
	}
	if c.TracebackLines != nil {
		lines := ownLines(got.Traceback, r.files)
		expect("traceback_lines", slices.Equal(c.TracebackLines, lines), c.TracebackLines, lines)
	}
	return found
}

// fitsName tells whether a name is the wanted one; a plain name also fits a
// qualified one.
func fitsName(want, got string) bool { return want == got || want == lastName(got) }

func lastName(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// fitsType tells whether an exception of a chain is of the wanted type, null for none.
func fitsType(want json.RawMessage, got *raised) bool {
	var name *string
	if err := json.Unmarshal(want, &name); err != nil {
		return false
	}
	if name == nil || got == nil {
		return name == nil && got == nil
	}
	return fitsName(*name, got.Type)
}

func groupTypes(group []raised) []string {
	types := make([]string, 0, len(group))
	for _, e := range group {
		types = append(types, lastName(e.Type))
	}
	return types
}

// ownLines are the lines of the frames in the program's own files.
func ownLines(traceback []frame, files map[string]string) []int {
	lines := make([]int, 0, len(traceback))
	for _, f := range traceback {
		if _, own := files[f.File]; own {
			lines = append(lines, f.Line)
		}
	}
	return lines
}
