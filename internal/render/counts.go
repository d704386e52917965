package render

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/trace"
)

// How much the sections on counts show.
const (
	wholeFileLines = 120 // a file up to this long is shown whole
	contextLines   = 1   // lines kept around those that ran, in a longer one
	listedCalls    = 12
	listedLoops    = 8
	hotFrom        = 16 // in a run where no line ran more often than this, none is drawn as hot
)

// counts shows each file that ran, with how often each line did.
func (v *view) counts() {
	s := v.result.Summary
	if s == nil || len(s.Lines) == 0 || len(v.files) == 0 {
		return
	}
	title := "How often each line ran"
	if !s.CountsExact {
		title += " (at least)"
	}
	v.heading(title)
	var idle []string
	shown := 0
	several := len(s.Lines) > 1
	for _, path := range v.filePaths(v.entrypoint()) {
		hits := lineHits(s.Lines[path])
		switch {
		case len(hits) > 0:
			if several {
				v.printf("%s  %s\n", map[bool]string{true: "\n", false: ""}[shown > 0], v.paint.bold(plain(path)))
			}
			v.countedFile(path, hits)
			shown++
		case strings.HasSuffix(path, ".py"):
			idle = append(idle, plain(path))
		}
	}
	if len(idle) > 0 {
		v.printf("\n  %s\n", v.paint.dim(v.fit("No line ran of "+strings.Join(idle, ", ")+".", 2)))
	}
}

// entrypoint is the file that ran: that of the first event, or the only one.
func (v *view) entrypoint() string {
	t := v.result.Trace
	if t != nil && len(t.Events) > 0 {
		names := t.Names()
		return names.Path(names.Function(t.Events[0].Func).File)
	}
	return job.DefaultEntrypoint
}

func lineHits(lines map[string]int64) map[int]int64 {
	hits := make(map[int]int64, len(lines))
	for text, n := range lines {
		if line, err := strconv.Atoi(text); err == nil && line > 0 {
			hits[line] = n
		}
	}
	return hits
}

func (v *view) countedFile(path string, hits map[int]int64) {
	lines := v.files[path]
	failed := failedLines(v.result.Exception, path)
	most := slices.Max(slices.Collect(maps.Values(hits)))
	widest := len(number(most))
	digits := len(strconv.Itoa(len(lines)))
	skipping := false
	for i, text := range lines {
		line := i + 1
		if len(lines) > wholeFileLines && !nearHit(hits, line) {
			if !skipping {
				v.printf("  %s\n", v.paint.dim(strings.Repeat(" ", widest+3)+"⋮"))
			}
			skipping = true
			continue
		}
		skipping = false
		v.countedLine(counted{line: line, hits: hits[line], most: most, failed: failed[line], text: plain(text)}, widest, digits)
	}
}

// counted is one source line with its count.
type counted struct {
	line       int
	hits, most int64
	failed     bool
	text       string
}

func (v *view) countedLine(c counted, widest, digits int) {
	mark, times, bar := "  ", "", " "
	if c.hits > 0 {
		times, bar = number(c.hits), heat(c.hits, c.most)
	}
	if c.failed {
		mark = v.paint.alarm("✗ ")
	}
	text := v.fit(c.text, widest+digits+10)
	if c.hits == 0 {
		text = v.paint.dim(text)
	}
	line := fmt.Sprintf("  %s%s %s %s %s", mark, strings.Repeat(" ", widest-len(times))+times, v.paintHeat(bar, c),
		v.paint.dim(fmt.Sprintf("%*d │", digits, c.line)), text)
	v.printf("%s\n", strings.TrimRight(line, " "))
}

// heat is a bar whose height grows with the logarithm of the count.
func heat(hits, most int64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	share := math.Log(float64(hits)) / math.Log(float64(max(most, hotFrom)))
	return string(bars[int(math.Round(share*float64(len(bars)-1)))])
}

func (v *view) paintHeat(bar string, c counted) string {
	switch {
	case c.hits == 0:
		return bar
	case float64(c.hits) >= math.Sqrt(float64(max(c.most, hotFrom))):
		return v.paint.yellow(bar)
	}
	return v.paint.dim(bar)
}

func nearHit(hits map[int]int64, line int) bool {
	for near := line - contextLines; near <= line+contextLines; near++ {
		if hits[near] > 0 {
			return true
		}
	}
	return false
}

// failedLines are the lines of a file where the exception came from.
func failedLines(e *trace.Exception, path string) map[int]bool {
	failed := map[int]bool{}
	if e == nil {
		return failed
	}
	if e.File == path {
		failed[e.Line] = true
	}
	return failed
}

// calls lists how often each function was called, and the loops.
func (v *view) calls() {
	s := v.result.Summary
	if s == nil {
		return
	}
	classes := v.classNames()
	calls := slices.DeleteFunc(slices.Sorted(maps.Keys(s.Calls)), func(name string) bool {
		return strings.HasSuffix(name, "<module>") || classes[name[strings.LastIndexByte(name, ':')+1:]]
	})
	slices.SortStableFunc(calls, func(a, b string) int { return int(s.Calls[b] - s.Calls[a]) })
	if len(calls) > 0 {
		v.heading("Calls")
	}
	for i, name := range calls {
		if i == listedCalls {
			v.printf("  %s\n", v.paint.dim(fmt.Sprintf("… %s", count(int64(len(calls)-i), "more function"))))
			break
		}
		v.printf("%s\n", v.fit(fmt.Sprintf("  %8s × %s", number(s.Calls[name]), plain(strings.ReplaceAll(name, ".<locals>.", "."))), 0))
	}
	v.loops(s.Loops)
}

// classNames are the names of classes, whose bodies count as calls although
// nobody would call them that.
func (v *view) classNames() map[string]bool {
	names := map[string]bool{}
	if v.result.Trace == nil {
		return names
	}
	for _, f := range v.result.Trace.Functions {
		if f.Kind == "class" {
			names[f.Name] = true
		}
	}
	return names
}

func (v *view) loops(all []trace.Loop) {
	loops := slices.DeleteFunc(slices.Clone(all), func(l trace.Loop) bool { return l.Iterations == 0 })
	slices.SortStableFunc(loops, func(a, b trace.Loop) int { return int(b.Iterations - a.Iterations) })
	if len(loops) == 0 {
		return
	}
	v.heading("Loops")
	for i, l := range loops {
		if i == listedLoops {
			v.printf("  %s\n", v.paint.dim(fmt.Sprintf("… %s", count(int64(len(loops)-i), "more loop"))))
			return
		}
		text, _ := v.source(l.File, l.Line)
		place := fmt.Sprintf("  %8s × %s:%d   ", number(l.Iterations), plain(l.File), l.Line)
		v.printf("%s\n", strings.TrimRight(v.fit(place+plain(strings.TrimSpace(text)), 0), " "))
	}
}
