package trace

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// PyTutorSteps is how many steps a document for Python Tutor has at most: more its page refuses to show.
const PyTutorSteps = 1000

// PyTutorInput is what a document for Python Tutor shows beside the trace.
type PyTutorInput struct {
	// Code is the source of Entrypoint; steps in other files are left out.
	Code, Entrypoint string
	Stdout           string
	Exception        *Exception
	// Stopped says why the program was not left to end in its own way; "" when it was.
	Stopped string
}

// PyTutorDocument is a trace as Python Tutor's page reads it (OPT v3).
type PyTutorDocument struct {
	Code  string        `json:"code"`
	Trace []PyTutorStep `json:"trace"`
}

// PyTutorStep is the state of the program before one line runs.
type PyTutorStep struct {
	Event          string           `json:"event"`
	Line           int              `json:"line,omitempty"`
	Offset         int              `json:"offset,omitempty"`
	FuncName       string           `json:"func_name,omitempty"`
	Stdout         string           `json:"stdout"`
	Globals        map[string]any   `json:"globals"`
	OrderedGlobals []string         `json:"ordered_globals"`
	Stack          []PyTutorFrame   `json:"stack_to_render"`
	Heap           map[string][]any `json:"heap"`
	ExceptionMsg   string           `json:"exception_msg,omitempty"`
}

// PyTutorFrame is one frame of a step.
type PyTutorFrame struct {
	FuncName     string         `json:"func_name"`
	FrameID      int            `json:"frame_id"`
	UniqueHash   string         `json:"unique_hash"`
	Locals       map[string]any `json:"encoded_locals"`
	OrderedNames []string       `json:"ordered_varnames"`
	Highlighted  bool           `json:"is_highlighted"`
	Zombie       bool           `json:"is_zombie"`
	Parent       bool           `json:"is_parent"`
	Parents      []int          `json:"parent_frame_id_list"`
}

// PyTutor gives t in the form of Python Tutor: the steps of the main thread in the entrypoint's file, at most
// PyTutorSteps with the notice that ends a longer or incomplete trace, or that of a program that was stopped. A nil t, or one of a program that did not
// compile, gives the exception alone, or the notice that nothing was traced.
func PyTutor(t *Trace, in PyTutorInput) PyTutorDocument {
	w := tutorWriter{doc: PyTutorDocument{Code: in.Code, Trace: []PyTutorStep{}}, in: in, frames: map[int]*tutorFrame{}, objects: Objects{}}
	if t != nil {
		w.names = t.Names()
		missing := gapsOf(t)
		for _, e := range t.Events {
			if missing(e) {
				w.forget()
			}
			if !w.event(e) {
				return w.doc
			}
		}
	}
	w.finish(t)
	return w.doc
}

type tutorFrame struct {
	id, function int
	names        []string
	values       map[string]Value
}

type tutorWriter struct {
	doc     PyTutorDocument
	in      PyTutorInput
	names   Names
	objects Objects
	frames  map[int]*tutorFrame
	stack   []*tutorFrame
	stdout  int64
}

// forget drops the values that were known before a gap, as they may no longer hold after it.
func (w *tutorWriter) forget() {
	w.objects = Objects{}
	for _, f := range w.frames {
		f.names, f.values = nil, map[string]Value{}
	}
}

// event applies e and adds its step. It tells false when the document is full.
func (w *tutorWriter) event(e Event) bool {
	w.objects.Apply(e)
	if e.Out != nil {
		w.stdout = e.Out[0]
	}
	f := w.frames[e.Frame]
	if f == nil {
		f = &tutorFrame{id: e.Frame, function: e.Func, values: map[string]Value{}}
		w.frames[e.Frame] = f
	}
	f.apply(e.Vars)
	if e.Thread != 1 {
		return true
	}
	w.enter(f, e)
	kind := tutorKind(e.Kind)
	if kind != "" && w.names.Path(w.names.Function(e.Func).File) == w.in.Entrypoint {
		if len(w.doc.Trace) == PyTutorSteps-1 {
			w.notice(fmt.Sprintf("Only the first %d steps are shown.", PyTutorSteps-1))
			return false
		}
		w.doc.Trace = append(w.doc.Trace, w.step(kind, f, e))
	}
	switch e.Kind {
	case KindReturn, KindYield, KindUnwind:
		w.stack = w.stack[:len(w.stack)-1]
	}
	return true
}

// enter makes f the innermost frame of the stack.
func (w *tutorWriter) enter(f *tutorFrame, e Event) {
	for i := len(w.stack) - 1; i >= 0; i-- {
		if w.stack[i] == f {
			w.stack = w.stack[:i+1]
			return
		}
	}
	// Frames whose end is missing are those at or below its depth.
	w.stack = append(w.stack[:min(len(w.stack), max(e.Depth-1, 0))], f)
}

func tutorKind(k Kind) string {
	switch k {
	case KindCall, KindResume, KindThrow:
		return "call"
	case KindLine:
		return "step_line"
	case KindReturn, KindYield:
		return "return"
	case KindException:
		return "exception"
	}
	return ""
}

func (f *tutorFrame) apply(vars Vars) {
	for _, v := range vars {
		_, known := f.values[v.Name]
		switch {
		case Deleted(v.Value):
			delete(f.values, v.Name)
			for i, name := range f.names {
				if name == v.Name {
					f.names = append(f.names[:i:i], f.names[i+1:]...)
					break
				}
			}
			continue
		case !known:
			f.names = append(f.names[:len(f.names):len(f.names)], v.Name)
		}
		f.values[v.Name] = v.Value
	}
}

// step shows the state as it is now.
func (w *tutorWriter) step(kind string, f *tutorFrame, e Event) PyTutorStep {
	s := PyTutorStep{
		Event: kind, Line: max(e.Line, 1), FuncName: bareName(w.names.Function(f.function).Name), Stdout: prefix(w.in.Stdout, w.stdout),
		Globals: map[string]any{}, OrderedGlobals: []string{}, Stack: []PyTutorFrame{}, Heap: map[string][]any{},
	}
	for i, frame := range w.stack {
		if i == 0 && w.names.Function(frame.function).Kind == "module" {
			s.Globals, s.OrderedGlobals = w.variables(frame, s.Heap)
			continue
		}
		locals, names := w.variables(frame, s.Heap)
		if frame == f && kind == "return" {
			names = append(names, "__return__")
			locals["__return__"] = w.value(e.Value, s.Heap)
		}
		s.Stack = append(s.Stack, PyTutorFrame{
			FuncName: bareName(w.names.Function(frame.function).Name), FrameID: frame.id, UniqueHash: "f" + strconv.Itoa(frame.id),
			Locals: locals, OrderedNames: names, Highlighted: frame == f, Parents: []int{},
		})
	}
	if e.Exception != nil {
		s.ExceptionMsg = execraException(e.Exception)
	}
	return s
}

func (w *tutorWriter) variables(f *tutorFrame, heap map[string][]any) (map[string]any, []string) {
	values, names := make(map[string]any, len(f.names)), make([]string, 0, len(f.names)+1)
	for _, name := range f.names {
		values[name] = w.value(f.values[name], heap)
		names = append(names, name)
	}
	return values, names
}

// finish ends the document with the uncaught exception, or with a notice of what is missing.
func (w *tutorWriter) finish(t *Trace) {
	if x := w.in.Exception; x != nil {
		step := w.last("uncaught_exception", bareName(x.Type)+": "+x.Message)
		if x.File == w.in.Entrypoint || len(w.doc.Trace) == 0 {
			step.Line = max(x.Line, 1)
		}
		if x.Column != nil && t == nil {
			step.Offset = *x.Column
		}
		if n := len(w.doc.Trace); n > 0 && w.doc.Trace[n-1].Event == "exception" && w.doc.Trace[n-1].Line == step.Line {
			w.doc.Trace[n-1].Event = "uncaught_exception"
			return
		}
		w.doc.Trace = append(w.doc.Trace, step)
		return
	}
	switch {
	case w.in.Stopped != "":
		w.notice(w.in.Stopped)
	case t != nil && (t.Truncation.Events || t.Truncation.Bytes || len(t.Gaps) > 0):
		w.notice("The trace ends here; the program went on.")
	case len(w.doc.Trace) == 0:
		w.notice("Nothing was traced.")
	}
}

// notice ends the document the way its page shows a limit.
func (w *tutorWriter) notice(text string) {
	w.doc.Trace = append(w.doc.Trace, w.last("instruction_limit_reached", text))
}

// last is a step that says something over the state of the step before.
func (w *tutorWriter) last(event, text string) PyTutorStep {
	s := PyTutorStep{Line: 1, Globals: map[string]any{}, OrderedGlobals: []string{}, Stack: []PyTutorFrame{}, Heap: map[string][]any{}}
	if n := len(w.doc.Trace); n > 0 {
		s = w.doc.Trace[n-1]
	}
	s.Event, s.ExceptionMsg, s.Stdout = event, text, prefix(w.in.Stdout, max(w.stdout, int64(len(w.in.Stdout))))
	return s
}

// value gives v as the page takes it; objects go into heap, with what they hold.
func (w *tutorWriter) value(v Value, heap map[string][]any) any {
	if len(v) == 0 {
		return nil
	}
	if v[0] != '[' {
		return json.RawMessage(v)
	}
	items, ok := list(v)
	if !ok || len(items) == 0 {
		return faux("?")
	}
	if ref, isRef := refOf(items); isRef {
		return w.reference(ref, heap)
	}
	if str(items[0]) == "SPECIAL_FLOAT" {
		return json.RawMessage(v)
	}
	return faux(w.objects.Text(v, 2*chromeArgLimit))
}

// faux is a value that the page shows as the text it is.
func faux(text string) []any { return []any{"IMPORTED_FAUX_PRIMITIVE", text} }

func (w *tutorWriter) reference(ref int, heap map[string][]any) any {
	key := strconv.Itoa(ref)
	entry, ok := list(w.objects[ref])
	if !ok || len(entry) == 0 {
		return faux("…")
	}
	if _, done := heap[key]; !done {
		heap[key] = []any{"LIST"} // A cycle comes back here.
		heap[key] = w.object(entry, w.objects[ref], heap)
	}
	return []any{"REF", ref}
}

// object gives the content of an object as the page takes it.
func (w *tutorWriter) object(entry []Value, whole Value, heap map[string][]any) []any {
	tag, rest := str(entry[0]), entry[1:]
	out := []any{tag}
	switch tag {
	case "LIST", "TUPLE", "SET":
		for _, item := range rest {
			out = append(out, w.value(item, heap))
		}
	case "FROZENSET":
		return w.object(append([]Value{Value(`"SET"`)}, rest...), whole, heap)
	case "DICT":
		return append(out, w.members(rest, heap, false)...)
	case "INSTANCE":
		return append(append(out, word(rest, 0)), w.members(rest[min(1, len(rest)):], heap, true)...)
	case "CLASS":
		bases := []string{}
		if len(rest) > 1 {
			_ = json.Unmarshal(rest[1], &bases) // A forged list of bases shows none.
		}
		return append(append(out, word(rest, 0), bases), w.members(rest[min(2, len(rest)):], heap, true)...)
	case "INSTANCE_PPRINT":
		out = append(out, word(rest, 0), word(rest, 1))
	default:
		return []any{"HEAP_PRIMITIVE", "value", w.objects.Text(whole, 2*chromeArgLimit)}
	}
	return out
}

// members gives pairs of key and value; what is left out becomes a pair of its own. The names of attributes are texts.
func (w *tutorWriter) members(items []Value, heap map[string][]any, attributes bool) []any {
	var out []any
	for _, item := range items {
		pair, ok := list(item)
		switch {
		case !ok || len(pair) != 2 || str(pair[0]) == "ELIDED":
			out = append(out, []any{"…", faux(w.objects.Text(item, chromeArgLimit))})
		case attributes:
			out = append(out, []any{str(pair[0]), w.value(pair[1], heap)})
		default:
			out = append(out, []any{w.value(pair[0], heap), w.value(pair[1], heap)})
		}
	}
	return out
}

// prefix is the first n bytes of s, to the edge of a character.
func prefix(s string, n int64) string {
	if n >= int64(len(s)) {
		return s
	}
	n = max(n, 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
