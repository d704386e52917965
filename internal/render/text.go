// Package render turns a Result into what people and scripts read: a text view
// for a terminal, the Result document, and Execra's form.
//
// Everything a program wrote or named is hostile: the text view shows control
// characters instead of sending them to the terminal.
package render

import (
	"bufio"
	"io"
	"maps"
	"slices"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/trace"
)

// Options says how the text view is laid out.
type Options struct {
	// Width is the terminal's width in columns. With 0 nothing is cut or
	// wrapped, as is right for a file or a pipe.
	Width int
	// Color turns on ANSI colours.
	Color bool
	// Steps is how many rows of the run are shown at most, 0 for all. Long
	// runs keep their beginning and their end.
	Steps int
	// Unfolded shows every pass of a loop; otherwise the middle of a long loop is folded.
	Unfolded bool
}

// DefaultSteps is a number of rows that a person can still read.
const DefaultSteps = 300

// view is what all sections of the text view work on.
type view struct {
	out     *bufio.Writer
	result  job.Result
	files   map[string][]string // source lines by path
	options Options
	paint   painter
	// outputShown is true once the steps have shown all output in place.
	outputShown bool
}

// Text writes the text view of r: the verdict, the run line by line, the
// exceptions, where threads stood, what the program reached for, and how often each line ran. files are the job's sources by path;
// without them the view has no source lines. The only errors are those of w.
func Text(w io.Writer, r job.Result, files map[string]string, o Options) error {
	v := &view{
		out: bufio.NewWriter(w), result: r, files: splitFiles(files),
		options: o, paint: painter{on: o.Color},
	}
	v.verdict()
	v.steps()
	v.outputSection()
	v.exception()
	v.threadsEnded()
	v.whereStopped()
	v.effects()
	v.counts()
	v.calls()
	v.notes()
	return v.out.Flush()
}

func splitFiles(files map[string]string) map[string][]string {
	split := make(map[string][]string, len(files))
	for path, text := range files {
		split[path] = trace.SplitLines(text)
	}
	return split
}

// source gives a line of a file, and false when it is not known.
func (v *view) source(path string, line int) (string, bool) {
	lines := v.files[path]
	if line < 1 || line > len(lines) {
		return "", false
	}
	return lines[line-1], true
}

// filePaths lists the job's files, those with the given paths first.
func (v *view) filePaths(first ...string) []string {
	paths := slices.Clone(first)
	for _, path := range slices.Sorted(maps.Keys(v.files)) {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}
