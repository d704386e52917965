package render

import (
	"fmt"
	"strings"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/trace"
)

// alikeFrames is how many equal frames in a row are shown of a deep recursion.
const alikeFrames = 2

// exception shows the exception that ended the program with its chain, or
// the one that was on its way when the program was stopped.
func (v *view) exception() {
	e := v.result.Exception
	if e == nil {
		return
	}
	v.heading("The exception")
	v.exceptionTree(e, "  ", "")
}

// exceptionTree writes e and whatever led to it. lead are words that say how e
// belongs to the one before.
func (v *view) exceptionTree(e *trace.Exception, margin, lead string) {
	if lead != "" {
		lead += " "
	}
	for i, line := range wrap(plain(lead+exceptionLine(e)), max(0, v.options.Width-len(margin))) {
		if i > 0 {
			line = "  " + line
		}
		v.printf("%s%s\n", margin, v.paint.alarm(line))
	}
	v.traceback(e, margin+"  ")
	if v.result.Status == job.StatusSyntaxError && e.Column != nil {
		v.caret(e, margin+"  ")
	}
	for i, inner := range e.Group {
		if inner != nil {
			v.exceptionTree(inner, margin+"  ", fmt.Sprintf("%d of %d in the group:", i+1, len(e.Group)))
		}
	}
	switch {
	case e.Cause != nil:
		v.exceptionTree(e.Cause, margin, "caused by")
	case e.Context != nil:
		v.exceptionTree(e.Context, margin, "while handling")
	}
}

func (v *view) traceback(e *trace.Exception, margin string) {
	alike := 0
	for i, f := range e.Traceback {
		same := i > 0 && f == e.Traceback[i-1]
		if same {
			alike++
		}
		if !same || i == len(e.Traceback)-1 {
			if hidden := alike - alikeFrames + 1; hidden > 0 {
				v.printf("%s%s\n", margin, v.paint.dim(fmt.Sprintf("… %s like this", count(int64(hidden), "more frame"))))
			}
		}
		if !same {
			alike = 0
		}
		if alike < alikeFrames {
			v.tracebackFrame(f, margin)
		}
	}
}

func (v *view) tracebackFrame(f trace.TracebackFrame, margin string) {
	place := fmt.Sprintf("%s:%d in %s", plain(f.File), f.Line, plain(f.Function))
	source := strings.TrimSpace(f.Source)
	if text, known := v.source(f.File, f.Line); known && source == "" {
		source = strings.TrimSpace(text)
	}
	if f.Library {
		v.printf("%s%s\n", margin, v.paint.dim(v.fit(place+"   (library)", len(margin))))
		return
	}
	v.printf("%s%s\n", margin, v.fit(place, len(margin)))
	if source != "" {
		v.printf("%s    %s\n", margin, v.fit(plain(source), len(margin)+4))
	}
}

// caret shows the line that does not compile, and points at the place.
func (v *view) caret(e *trace.Exception, margin string) {
	text, known := v.source(e.File, e.Line)
	column := value(e.Column)
	if !known || column < 1 || column > len([]rune(text))+1 {
		return
	}
	before := plain(string([]rune(text)[:column-1]))
	v.printf("%s%s:%d\n", margin, plain(e.File), e.Line)
	v.printf("%s    %s\n", margin, v.fit(plain(text), len(margin)+4))
	if v.options.Width == 0 || columns(before) < v.options.Width-len(margin)-4 {
		v.printf("%s    %s%s\n", margin, strings.Repeat(" ", columns(before)), v.paint.alarm("^"))
	}
}

// fit cuts s to what is left of the terminal's width beside used columns.
func (v *view) fit(s string, used int) string {
	if v.options.Width == 0 {
		return s
	}
	return cut(s, max(10, v.options.Width-used))
}
