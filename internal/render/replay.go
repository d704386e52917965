package render

import (
	"bytes"
	"slices"
	"strings"

	"github.com/execra/tracefleet/internal/trace"
)

// Longest texts of values, in characters.
const (
	changeLimit   = 60
	argumentLimit = 40
	resultLimit   = 80
)

// replay folds the events of a trace into the state of the program, one after
// the other.
type replay struct {
	names   trace.Names
	objects trace.Objects
	frames  map[int]*frameState
	// classes has, by the name that is its own, what the attributes of a class were last said to be.
	classes map[string]map[string]string
	// resumed is true after a gap: a frame may come up that began before it.
	resumed bool
}

// frameState is one call of a function as far as the replay has come.
type frameState struct {
	function trace.Function
	order    []string
	values   map[string]trace.Value
	// row is where the last line of this frame was shown; nil at first and after a fold.
	row *row
	// line is the last line event's line, 0 at first.
	line int
	// unseen tells that the last event of this frame was not looked at, or is
	// missing; blind, that the one before was: what changed may have changed at any line since.
	unseen, blind bool
}

func newReplay(t *trace.Trace) *replay {
	return &replay{names: t.Names(), objects: trace.Objects{}, frames: map[int]*frameState{}, classes: map[string]map[string]string{}}
}

// frame gives the frame that e happened in.
func (r *replay) frame(e trace.Event) *frameState {
	f := r.frames[e.Frame]
	if f == nil {
		f = &frameState{function: r.names.Function(e.Func), values: map[string]trace.Value{}}
		f.unseen = r.resumed && e.Kind != trace.KindCall
		r.frames[e.Frame] = f
	}
	return f
}

// forget drops what was known before a gap, as it may no longer hold after it.
func (r *replay) forget() {
	r.objects, r.frames, r.classes, r.resumed = trace.Objects{}, map[int]*frameState{}, map[string]map[string]string{}, true
}

// step takes e in and returns its frame and the names of that frame's
// variables that changed: those assigned, then those whose object did.
func (r *replay) step(e trace.Event) (*frameState, []string) {
	r.objects.Apply(e)
	f := r.frame(e)
	f.blind, f.unseen = f.unseen, e.Unseen
	var changed []string
	for _, v := range e.Vars {
		changed = append(changed, v.Name)
		if trace.Deleted(v.Value) {
			delete(f.values, v.Name)
			f.order = slices.DeleteFunc(f.order, func(name string) bool { return name == v.Name })
			continue
		}
		if _, known := f.values[v.Name]; !known {
			f.order = append(f.order, v.Name)
		}
		f.values[v.Name] = v.Value
	}
	for _, entry := range e.Heap {
		changed = append(changed, r.holders(f, entry.Ref, changed)...)
	}
	return f, changed
}

// holders are the variables, of those not known to have changed, through which
// the changed object ref is seen: those that are it, or else those that hold it somewhere.
func (r *replay) holders(f *frameState, ref int, known []string) []string {
	var direct, deep []string
	for _, name := range f.order {
		v := f.values[name]
		switch {
		case trace.IsReference(v, ref):
			direct = append(direct, name)
		case r.objects.Reaches(v, ref):
			deep = append(deep, name)
		}
	}
	if len(direct) == 0 {
		direct = deep
	}
	return slices.DeleteFunc(direct, func(name string) bool { return slices.Contains(known, name) })
}

// changes writes "name = value" for each name that a person wants to read.
func (r *replay) changes(f *frameState, names []string) []string {
	var texts []string
	for _, name := range names {
		v, known := f.values[name]
		switch {
		case !known:
			texts = append(texts, plain(name)+" deleted")
		case !r.definition(name, v):
			texts = append(texts, plain(name)+" = "+r.objects.Text(v, changeLimit))
		default:
			texts = append(texts, r.attributes(name, v)...)
		}
	}
	return texts
}

// attributes writes "class.name = value" for each attribute of a class that is other than it
// was last said to be. What it begins with, its own lines have told.
func (r *replay) attributes(class string, v trace.Value) []string {
	var texts []string
	last, known := r.classes[class]
	now := map[string]string{}
	for _, a := range r.objects.Attributes(v) {
		text := r.objects.Text(a.Value, changeLimit)
		if now[a.Name] = text; known && last[a.Name] != text {
			texts = append(texts, plain(class+"."+a.Name)+" = "+text)
		}
	}
	r.classes[class] = now
	return texts
}

// definition tells whether v is a function, class or module under its own
// name: the line itself says so.
func (r *replay) definition(name string, v trace.Value) bool {
	if len(v) == 0 || v[0] != '[' {
		return false
	}
	text := r.objects.Text(v, changeLimit)
	for _, kind := range []string{"<function ", "<class ", "<module "} {
		if rest, ok := strings.CutPrefix(text, kind); ok {
			return lastName(strings.TrimSuffix(rest, ">")) == name
		}
	}
	return bytes.HasPrefix(v, []byte(`["module"`)) || text == "<module>"
}

// arguments writes the arguments of a call, in the order of the function's
// parameters.
func (r *replay) arguments(f *frameState) string {
	var texts []string
	for _, name := range f.function.Args {
		text := plain(name)
		if v, known := f.values[name]; known {
			text += "=" + r.objects.Text(v, argumentLimit)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// lastName is what follows the last dot.
func lastName(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
