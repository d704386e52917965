package render

import (
	"fmt"
	"strings"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/trace"
)

// Output shown among the steps keeps its first and last lines; so does the
// section that shows it on its own, which has more room. Very long lines keep
// their beginning.
const (
	placedHead, placedTail   = 20, 5
	sectionHead, sectionTail = 40, 20
	outputLine               = 2000
)

// output adds the rows of what the program wrote before e.
func (r *run) output(e trace.Event) {
	if e.Out == nil {
		return
	}
	if r.adrift {
		// It may have been written at any time since the gap began.
		r.whole = r.whole && r.placed == *e.Out
		r.placed, r.adrift = *e.Out, false
		return
	}
	r.placeUpTo(*e.Out)
}

// placeUpTo adds rows for the output between what is placed and upto.
func (r *run) placeUpTo(upto [2]int64) {
	streams := [2]string{r.result.Stdout, r.result.Stderr}
	for i, label := range [2]string{"out", "err"} {
		if r.result.Encoding == job.EncodingUTF8Lossy {
			break // offsets count the program's bytes, which are not those of the text
		}
		chunk := slice(streams[i], r.placed[i], upto[i])
		if chunk == "" {
			continue
		}
		lines, all := outputLines(chunk, placedHead, placedTail)
		r.whole = r.whole && all
		for _, line := range lines {
			r.add(&row{gutter: label, text: line, look: [2]look{lookOut, lookErr}[i]})
		}
	}
	r.placed = upto
}

// rest adds the output after the last event, if it is short or nothing is
// missing before it. The traceback that CPython prints at the end is left to
// the section on the exception.
func (r *run) rest() {
	stderr := r.result.Stderr
	if r.result.Encoding != job.EncodingUTF8Lossy {
		tail := slice(stderr, r.placed[1], int64(len(stderr)))
		r.result.Stderr = strings.TrimSuffix(stderr, tail) + withoutTraceback(tail, r.result)
	}
	end := [2]int64{int64(len(r.result.Stdout)), int64(len(r.result.Stderr))}
	if len(r.result.Trace.Gaps) > 0 && end != r.placed {
		r.whole = false
		return
	}
	r.placeUpTo(end)
}

// outputLines makes output harmless and splits it into lines, of which it
// keeps the first head and the last tail, with a line between that says how many
// are missing. all is false when some are.
func outputLines(text string, head, tail int) (lines []string, all bool) {
	lines = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	all = true
	if extra := len(lines) - head - tail; extra > 1 {
		all = false
		kept := append([]string{}, lines[:head]...)
		kept = append(kept, fmt.Sprintf("… %s …", count(int64(extra), "more line")))
		lines = append(kept, lines[len(lines)-tail:]...)
	}
	for i, line := range lines {
		line = strings.TrimSuffix(line, "\r")
		if len(line) > outputLine {
			line = slice(line, 0, outputLine) + fmt.Sprintf("… (%s)", count(int64(len(line)), "byte"))
		}
		lines[i] = plain(line)
	}
	return lines, all
}

// outputSection shows the output on its own when the steps did not show all of it.
func (v *view) outputSection() {
	if v.outputShown {
		return
	}
	v.stream("Output (stdout)", v.result.Stdout, v.result.StdoutBytes, v.result.StdoutTruncated)
	v.stream("Output (stderr)", withoutTraceback(v.result.Stderr, v.result), v.result.StderrBytes, v.result.StderrTruncated)
}

func (v *view) stream(title, text string, total int64, truncated bool) {
	if text == "" {
		return
	}
	lines, _ := outputLines(text, sectionHead, sectionTail)
	v.heading(title)
	for _, line := range lines {
		for _, piece := range wrap(line, max(0, v.options.Width-2)) {
			v.printf("  %s\n", piece)
		}
	}
	if truncated {
		v.printf("  %s\n", v.paint.dim(fmt.Sprintf("… the program wrote %s; the first %s were kept",
			count(total, "byte"), count(int64(len(text)), "byte"))))
	}
}
