package trace

import "sort"

// ChromeDocument is a trace in the JSON form of Chrome's trace viewer, which Perfetto and speedscope open.
type ChromeDocument struct {
	TraceEvents     []ChromeEvent     `json:"traceEvents"`
	DisplayTimeUnit string            `json:"displayTimeUnit"`
	OtherData       map[string]string `json:"otherData"`
}

// ChromeEvent is one event: B and E begin and end a call, i is an instant, M names a process or thread.
type ChromeEvent struct {
	Name string `json:"name"`
	Cat  string `json:"cat,omitempty"`
	Ph   string `json:"ph"`
	// TS is in microseconds.
	TS    int64          `json:"ts"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// chromeArgLimit is how many characters an argument or result has at most.
const chromeArgLimit = 100

// Chrome gives the calls of t, each from its start to its end, and its exceptions. In each thread the beginnings
// and ends nest, also where events are missing or the program was killed: what was open then ends at the last event.
// A generator that is suspended has one call for each stretch in which it runs. A nil t gives a document without events.
func Chrome(t *Trace) ChromeDocument {
	w := chromeWriter{doc: ChromeDocument{TraceEvents: []ChromeEvent{}, DisplayTimeUnit: "ms", OtherData: map[string]string{}}}
	if t == nil {
		return w.doc
	}
	w.names, w.objects, w.threads = t.Names(), Objects{}, map[int]*chromeThread{}
	w.doc.OtherData["schema"], w.doc.OtherData["python"] = t.Schema, t.Producer.Python
	w.doc.TraceEvents = append(w.doc.TraceEvents, ChromeEvent{Name: "process_name", Ph: "M", PID: 1, Args: map[string]any{"name": "traced program"}})
	missing := gapsOf(t)
	for _, e := range t.Events {
		if missing(e) {
			w.objects = Objects{} // numbers may stand for others by now
		}
		w.event(e)
	}
	w.close()
	return w.doc
}

type chromeWriter struct {
	doc     ChromeDocument
	names   Names
	objects Objects
	threads map[int]*chromeThread
	last    int64
}

// chromeThread holds what is open in a thread, outermost first.
type chromeThread struct {
	id     int
	frames []int
	funcs  []int
	last   int64
}

func (w *chromeWriter) event(e Event) {
	w.objects.Apply(e)
	th := w.threads[e.Thread]
	if th == nil {
		th = &chromeThread{id: e.Thread}
		w.threads[e.Thread] = th
		w.doc.TraceEvents = append(w.doc.TraceEvents, ChromeEvent{
			Name: "thread_name", Ph: "M", PID: 1, TID: e.Thread, Args: map[string]any{"name": threadName(e.Thread)},
		})
	}
	// Times of one thread never go back, whatever a forged trace says.
	th.last = max(th.last, e.T)
	w.last = max(w.last, th.last)
	switch e.Kind {
	case KindCall, KindResume, KindThrow:
		w.unwindTo(th, e.Depth-1)
		w.begin(th, e)
	case KindReturn, KindYield, KindUnwind:
		w.enter(th, e)
		w.end(th, e)
	default:
		w.enter(th, e)
		if e.Kind == KindException && e.Exception != nil {
			w.doc.TraceEvents = append(w.doc.TraceEvents, ChromeEvent{
				Name: bareName(e.Exception.Type), Cat: "exception", Ph: "i", TS: th.last, PID: 1, TID: th.id, Scope: "t",
				Args: map[string]any{"message": e.Exception.Message, "line": e.Line},
			})
		}
	}
}

// enter makes the event's frame the innermost that is open: frames above it, whose end is missing,
// end here; a frame whose beginning is missing begins here.
func (w *chromeWriter) enter(th *chromeThread, e Event) {
	for i := len(th.frames) - 1; i >= 0; i-- {
		if th.frames[i] == e.Frame {
			w.unwindTo(th, i+1)
			return
		}
	}
	w.unwindTo(th, e.Depth-1)
	w.begin(th, e)
}

// unwindTo ends what is open until n calls are left.
func (w *chromeWriter) unwindTo(th *chromeThread, n int) {
	for len(th.frames) > max(n, 0) {
		w.end(th, Event{Kind: KindUnwind})
	}
}

func (w *chromeWriter) begin(th *chromeThread, e Event) {
	f := w.names.Function(e.Func)
	args := map[string]any{"file": w.names.Path(f.File), "line": e.Line, "seq": e.Seq}
	if e.Kind == KindCall {
		for _, v := range e.Vars {
			args["arg "+v.Name] = w.objects.Text(v.Value, chromeArgLimit)
		}
	}
	th.frames, th.funcs = append(th.frames, e.Frame), append(th.funcs, e.Func)
	w.doc.TraceEvents = append(w.doc.TraceEvents, ChromeEvent{
		Name: f.Name, Cat: f.Kind, Ph: "B", TS: th.last, PID: 1, TID: th.id, Args: args,
	})
}

func (w *chromeWriter) end(th *chromeThread, e Event) {
	top := len(th.frames) - 1
	f := w.names.Function(th.funcs[top])
	th.frames, th.funcs = th.frames[:top], th.funcs[:top]
	event := ChromeEvent{Name: f.Name, Cat: f.Kind, Ph: "E", TS: th.last, PID: 1, TID: th.id}
	if len(e.Value) > 0 {
		event.Args = map[string]any{"value": w.objects.Text(e.Value, chromeArgLimit)}
	}
	w.doc.TraceEvents = append(w.doc.TraceEvents, event)
}

// close ends what is open at the time of the last event.
func (w *chromeWriter) close() {
	ids := make([]int, 0, len(w.threads))
	for id := range w.threads {
		ids = append(ids, id)
	}
	sort.Ints(ids)
	for _, id := range ids {
		th := w.threads[id]
		th.last = w.last
		w.unwindTo(th, 0)
	}
}

func threadName(id int) string {
	if id == 1 {
		return "main thread"
	}
	return "thread"
}
