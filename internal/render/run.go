package render

import (
	"fmt"
	"strings"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/trace"
)

// row is one line of the run as it is shown.
type row struct {
	gutter  string
	depth   int
	text    string
	changes []string
	look    look
}

// look is what a row shows, which decides how it is painted.
type look int

const (
	lookSource look = iota
	lookAgain       // a line shown again after what it called
	lookCall
	lookReturn
	lookRaise
	lookFatal
	lookOut
	lookErr
	lookNote
)

// run turns the events of a trace into rows.
type run struct {
	*view
	*replay
	rows      []*row
	multiFile bool
	threads   bool
	thread    int
	fatal     int // the event that raised the exception that ended the program, or -1
	// placed counts the bytes of stdout and stderr that have gone by.
	placed [2]int64
	// whole is true while all output that has gone by is shown.
	whole bool
	// adrift is true from a gap on until an event says how much had been written.
	adrift bool
}

// steps writes the lines in the order they ran, with what changed beside them.
func (v *view) steps() {
	t := v.result.Trace
	if t == nil || len(t.Events) == 0 {
		return
	}
	r := &run{view: v, replay: newReplay(t), fatal: fatalEvent(v.result), whole: v.result.Encoding != job.EncodingUTF8Lossy}
	r.multiFile, r.threads = spread(t)
	r.walk(t)
	v.outputShown = r.whole
	if len(r.rows) == 0 {
		return // an empty program
	}
	v.heading("The run, step by step")
	v.writeRows(v.shorten(r.rows))
}

// spread tells whether the events are in several files, and in several threads.
func spread(t *trace.Trace) (files, threads bool) {
	names, first := t.Names(), t.Events[0]
	for _, e := range t.Events {
		files = files || names.Function(e.Func).File != names.Function(first.Func).File
		threads = threads || e.Thread != first.Thread
	}
	return files, threads
}

func (r *run) walk(t *trace.Trace) {
	var folding []fold
	if !r.options.Unfolded {
		folding = folds(t)
	}
	gaps := t.Gaps
	r.thread = t.Events[0].Thread
	for i := 0; i < len(t.Events); i++ {
		for len(gaps) > 0 && gaps[0].AfterSeq < t.Events[i].Seq {
			r.gap(gaps[0])
			gaps = gaps[1:]
		}
		frame, changed := r.step(t.Events[i])
		r.output(t.Events[i])
		r.switchTo(t.Events[i].Thread)
		r.attach(frame, t.Events[i], changed)
		if len(folding) > 0 && folding[0].from == i {
			r.skip(t.Events, folding[0])
			i, folding = folding[0].to, folding[1:]
		}
		if n := r.lambda(t.Events[i:]); n > 0 {
			i += n
			continue
		}
		r.own(i, t.Events)
	}
	for _, g := range gaps {
		r.gap(g)
	}
	r.rest()
}

// skip replays the events of a fold without showing them, up to and with what
// came before the event after it, and adds the row that stands for them.
func (r *run) skip(events []trace.Event, f fold) {
	var names []string
	seen := map[string]bool{}
	for _, e := range events[f.from+1 : f.to+1] {
		frame, changed := r.step(e)
		frame.row = nil
		if e.Out != nil {
			r.whole = false
			r.placed = *e.Out
		}
		if e.Frame != f.frame {
			continue
		}
		for _, name := range changed {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	fold := &row{
		depth: events[f.from].Depth, look: lookNote,
		text: fmt.Sprintf("… %s (%s)", f.words, count(int64(f.to-f.from), "event")),
	}
	if frame := r.frames[f.frame]; frame != nil {
		fold.changes = r.changes(frame, names)
	}
	r.add(fold)
}

// lambda shows the call of a lambda in one row, when nothing but its value came of
// it, and tells how many events follow the call.
func (r *run) lambda(events []trace.Event) int {
	const following = 2 // its only line, and the return
	e := events[0]
	f := r.frame(e)
	if e.Kind != trace.KindCall || !strings.HasSuffix(f.function.Name, "<lambda>") || len(events) <= following {
		return 0
	}
	line, end := events[1], events[following]
	if len(end.Value) == 0 || line.Kind != trace.KindLine || end.Kind != trace.KindReturn || line.Frame != e.Frame || end.Frame != e.Frame || line.Out != nil || end.Out != nil {
		return 0
	}
	arguments := r.arguments(f)
	r.step(line)
	r.step(end)
	r.add(&row{depth: e.Depth, look: lookCall, text: fmt.Sprintf("→ %s(%s) ← %s", functionName(f.function), arguments, r.objects.Text(end.Value, resultLimit))})
	return following
}

func (r *run) add(w *row) { r.rows = append(r.rows, w) }

// attach shows what the last line of a frame changed: beside it, or beside the
// line shown again when other rows have come in between.
func (r *run) attach(f *frameState, e trace.Event, names []string) {
	if e.Kind == trace.KindCall {
		return // these are the arguments
	}
	texts := r.changes(f, names)
	if len(texts) == 0 {
		return
	}
	if f.blind {
		r.add(&row{depth: e.Depth, look: lookAgain, text: "by now", changes: texts})
		return
	}
	if f.row != nil && r.undisturbed(f.row) {
		f.row.changes = append(f.row.changes, texts...)
		return
	}
	again := &row{depth: e.Depth, look: lookAgain, changes: texts}
	if f.line > 0 {
		again.gutter, again.text = fmt.Sprint(f.line), backAt(r.sourceOf(f, f.line))
	}
	r.add(again)
	f.row = again
}

// backAt marks a line that is shown again, in the room of its indent if it has any.
func backAt(line string) string {
	text := strings.TrimLeft(line, " ")
	return strings.Repeat(" ", max(0, len(line)-len(text)-2)) + "↩ " + text
}

// undisturbed tells whether only output and exceptions were shown after w.
func (r *run) undisturbed(w *row) bool {
	for i := len(r.rows) - 1; i >= 0; i-- {
		switch {
		case r.rows[i] == w:
			return true
		case r.rows[i].look != lookOut && r.rows[i].look != lookErr && r.rows[i].look != lookRaise:
			return false
		}
	}
	return false
}

// switchTo says that another thread goes on, before anything of it is shown.
func (r *run) switchTo(thread int) {
	if r.threads && thread != r.thread {
		r.thread = thread
		r.add(&row{look: lookNote, text: fmt.Sprintf("─── thread %d ───", thread)})
	}
}

// own adds the row of an event itself.
func (r *run) own(i int, events []trace.Event) {
	e := events[i]
	f := r.frame(e)
	switch e.Kind {
	case trace.KindLine:
		if e.Line < 1 {
			return // an empty file still has one line event
		}
		if f.function.Kind == "class" && e.Line == f.function.Line {
			return // it was shown when the statement itself ran
		}
		f.line = e.Line
		f.row = &row{gutter: fmt.Sprint(e.Line), depth: e.Depth, text: r.sourceOf(f, e.Line)}
		r.add(f.row)
	case trace.KindException:
		if passedOn(events[:i+1]) || i != r.fatal && endsIteration(e) {
			return
		}
		w := &row{depth: e.Depth, look: lookRaise, text: "! " + eventException(e)}
		if i == r.fatal {
			w.look, w.text = lookFatal, "✗ "+eventException(e)
		}
		r.add(w)
	default:
		if text := r.passage(f, e); text != "" {
			r.add(&row{depth: e.Depth, look: passageLook(e.Kind), text: text})
		}
	}
}

func passageLook(k trace.Kind) look {
	switch k {
	case trace.KindCall, trace.KindResume, trace.KindThrow:
		return lookCall
	}
	return lookReturn
}

func eventException(e trace.Event) string {
	if e.Exception == nil {
		return "exception"
	}
	return plain(strings.TrimSuffix(e.Exception.Type+": "+e.Exception.Message, ": "))
}

// passage says how a frame was entered or left; "" when that goes without saying.
func (r *run) passage(f *frameState, e trace.Event) string {
	name := functionName(f.function)
	switch f.function.Kind {
	case "module":
		if e.Kind == trace.KindCall && e.Depth > 1 {
			return "→ runs " + plain(r.names.Path(f.function.File))
		}
		return ""
	case "class":
		return ""
	}
	switch e.Kind {
	case trace.KindCall:
		return fmt.Sprintf("→ %s(%s)%s", name, r.arguments(f), r.place(f))
	case trace.KindResume:
		return "→ " + name + " goes on"
	case trace.KindThrow:
		return "→ " + name + " goes on with an exception"
	case trace.KindUnwind:
		return "↑ out of " + name
	case trace.KindYield:
		if f.function.Kind == "coroutine" {
			return "← " + name + " waits"
		}
		if len(e.Value) == 0 {
			return "← " + name + " yields"
		}
		return "← yields " + r.objects.Text(e.Value, resultLimit)
	}
	value := r.objects.Text(e.Value, resultLimit)
	switch {
	case len(e.Value) == 0: // values were not asked for
		return "← back from " + name
	case value == "None" && lastName(name) == "__init__":
		return ""
	case value == "None" && (f.function.Kind == "generator" || f.function.Kind == "genexpr"):
		return "← " + name + " ends"
	}
	return "← " + value
}

// place says where a function is when that is not plain from the gutter.
func (r *run) place(f *frameState) string {
	if !r.multiFile {
		return ""
	}
	return fmt.Sprintf("   [%s:%d]", plain(r.names.Path(f.function.File)), f.function.Line)
}

// sourceOf gives a line of a frame's file, moved left by the indent of the
// frame's own definition.
func (r *run) sourceOf(f *frameState, line int) string {
	path := r.names.Path(f.function.File)
	text, known := r.source(path, line)
	if !known {
		return fmt.Sprintf("(%s, line %d)", plain(path), line)
	}
	text = plain(text)
	outer, _ := r.source(path, f.function.Line)
	return text[min(indent(plain(outer)), indent(text)):]
}

func indent(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }

// functionName is a function's name as people say it.
func functionName(f trace.Function) string {
	return plain(strings.ReplaceAll(f.Name, ".<locals>.", "."))
}

// gap says that events are missing, and why. Where recording only went on in
// another way, as at the end of the budget of a run that then ends, none are.
func (r *run) gap(g trace.Gap) {
	if g.Skipped == 0 {
		return
	}
	many := "more events were"
	if g.Skipped >= 0 {
		many = count(g.Skipped, "more event") + " " + map[bool]string{true: "was", false: "were"}[g.Skipped == 1]
	}
	text := fmt.Sprintf("… %s not recorded", many)
	switch g.Cause {
	case trace.GapEvents:
		text += fmt.Sprintf(": the trace is limited to %s (--events)", count(r.result.Limits.TraceEvents, "event"))
	case trace.GapBytes:
		text += fmt.Sprintf(": the trace is limited to %s (--trace-size), and a result in its size", size(r.result.Limits.TraceBytes))
	case trace.GapTime:
		text += ": recording had used its share of the time limit (--wall, --cpu)"
	case trace.GapCorrupt:
		text = "… the trace is damaged here; " + strings.TrimPrefix(text, "… ")
	}
	r.add(&row{look: lookNote, text: text})
	r.adrift = true
	r.forget()
}
