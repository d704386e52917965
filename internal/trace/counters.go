package trace

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
)

// The counters with a fixed meaning; all others are given out by definitions.
const (
	counterFlags     = 1
	counterMaxDepth  = 2
	counterRaised    = 3
	counterOther     = 4
	counterStopped   = 7
	counterShortened = 8
	counterLost      = 9
	counterUnknown   = 10
	firstFreeCounter = 16
)

// The bits of counterFlags.
const (
	flagInexact = 1 << iota
	flagDetached
	flagForked
	flagInputEnded
	flagHitFiles
	flagHitDisk
	flagHitInodes
	flagHitFileSize
	flagInterpreters
)

// The values of counterStopped.
const (
	stoppedByEvents = 1
	stoppedByBytes  = 2
	stoppedByTime   = 3
)

// maxPath bounds Summary.ExecutionPath.
const maxPath = 1000

// readCounters reads the area of counters.
func readCounters(area []byte) []uint64 {
	counters := make([]uint64, len(area)/8)
	for i := range counters {
		counters[i] = binary.LittleEndian.Uint64(area[8*i:])
	}
	return counters
}

// counter reads one counter as a number that JSON can hold; one that is not there is 0.
func (d *decoder) counter(i int) int64 {
	if i < 0 || i >= len(d.counters) {
		return 0
	}
	return int64(min(d.counters[i], maxSafe))
}

// add is a sum of counters that JSON can hold.
func add(a, b int64) int64 { return min(a+b, maxSafe) }

// summary adds up the counters of the whole run.
func (d *decoder) summary() *Summary {
	s := &Summary{
		ExceptionsCaught: d.counter(counterRaised), MaxRecursionDepth: d.counter(counterMaxDepth),
		ExecutionPath: d.path, Lines: map[string]map[string]int64{}, Calls: map[string]int64{},
		Edges: []Edge{}, Loops: []Loop{}, EventsKept: int64(len(d.trace.Events)),
		CountsExact: d.counter(counterFlags)&flagInexact == 0 && d.counter(counterUnknown) == 0,
	}
	for _, c := range d.codes {
		calls := d.counter(c.calls)
		s.TotalCalls = add(s.TotalCalls, calls)
		if calls > 0 {
			s.Calls[c.shown] = add(s.Calls[c.shown], calls)
		}
		s.TotalLines = add(s.TotalLines, d.lineHits(c, s.Lines))
	}
	s.EventsTotal = max(add(add(s.TotalCalls, s.TotalLines), d.counter(counterOther)), s.EventsKept)
	s.Warnings, s.Unraisable = d.noted.warnings, d.noted.unraisable
	s.Exceptions, s.ThreadExceptions = d.noted.exceptions, d.noted.deaths
	s.ThreadExceptionsTotal, s.EffectsTotal = d.noted.deathsTotal, d.noted.effectsTotal
	s.Edges = d.edgeCounts()
	s.Loops = d.loopCounts()
	return s
}

// lineHits adds the hits of a function's lines to those of its file and returns their sum.
func (d *decoder) lineHits(c *code, lines map[string]map[string]int64) (total int64) {
	slot := c.calls
	path := d.files[c.File-1].Path
	for _, run := range c.runs {
		for line := run[0]; line <= run[1]; line++ {
			slot++
			hits := d.counter(slot)
			if hits == 0 {
				continue
			}
			if lines[path] == nil {
				lines[path] = map[string]int64{}
			}
			key := strconv.Itoa(line)
			lines[path][key] = add(lines[path][key], hits)
			total = add(total, hits)
		}
	}
	return total
}

func (d *decoder) edgeCounts() []Edge {
	type pair struct{ caller, callee string }
	counts := map[pair]int64{}
	for _, e := range d.edges {
		if n := d.counter(e.slot); n > 0 {
			key := pair{d.codes[e.caller-1].shown, d.codes[e.callee-1].shown}
			counts[key] = add(counts[key], n)
		}
	}
	edges := make([]Edge, 0, len(counts))
	for key, n := range counts {
		edges = append(edges, Edge{Caller: key.caller, Callee: key.callee, Count: n})
	}
	slices.SortFunc(edges, func(a, b Edge) int {
		return cmp.Or(cmp.Compare(a.Caller, b.Caller), cmp.Compare(a.Callee, b.Callee))
	})
	return edges
}

// loopCounts returns the loops of functions that ran. One that was compiled
// more than once is one loop.
func (d *decoder) loopCounts() []Loop {
	type place struct {
		file string
		line int
	}
	counts := map[place]int64{}
	for _, l := range d.loops {
		c := d.codes[l.code-1]
		if d.counter(c.calls) == 0 {
			continue
		}
		path := d.files[c.File-1].Path
		key := place{path, headerLine(d.sourceLines(path), l.line)}
		n := counts[key]
		for _, slot := range l.slots {
			n = add(n, d.counter(slot))
		}
		counts[key] = n
	}
	loops := make([]Loop, 0, len(counts))
	for key, n := range counts {
		loops = append(loops, Loop{File: key.file, Line: key.line, Iterations: n})
	}
	slices.SortFunc(loops, func(a, b Loop) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return loops
}

// headerLine returns the line with the keyword of the loop whose first instruction is on
// a line: `while (` and its like have none of their own. Where none is near it is that line.
func headerLine(source []string, line int) int {
	const farthest = 20
	for at := line; at >= 1 && at > line-farthest && at <= len(source); at-- {
		word := strings.TrimLeft(source[at-1], " \t\f")
		for _, keyword := range []string{"while", "for", "async"} {
			if rest, found := strings.CutPrefix(word, keyword); found && strings.IndexAny(rest+" ", " \t\f(\\[{'\"") == 0 {
				return at
			}
		}
		if at < line && strings.HasSuffix(strings.TrimRight(word, " \t\f"), ":") {
			return line
		}
	}
	return line
}

// executionPath names the functions called, in order, as far as events tell.
func (d *decoder) executionPath() []string {
	path := []string{}
	for _, e := range d.trace.Events {
		if len(path) == maxPath {
			break
		}
		if e.Kind == KindCall {
			path = append(path, d.codes[e.Func-1].shown)
		}
	}
	return path
}
