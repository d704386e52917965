package scenario

import (
	"encoding/json"
	"slices"
)

// readTrace reads the result's trace; null is a trace without events.
func (r *result) readTrace(key string) (record, []Difference) {
	var rec record
	return rec, r.read(key, "trace", &rec)
}

// traceHas wants each pattern to match some event. In order means that each
// matches an event after the one that the pattern before it matched.
type traceHas struct {
	patterns []pattern
	inOrder  bool
}

func parseTraceHas(_ string, value json.RawMessage) (check, error) {
	patterns, err := parsePatterns(value)
	return traceHas{patterns: patterns}, err
}

func (c traceHas) compare(r *result) []Difference {
	rec, d := r.readTrace("trace_has")
	if d != nil {
		return d
	}
	waiting := slices.Clone(c.patterns)
	var nearest any = "no event of its kind"
	rec.replay(func(m moment) bool {
		if waiting[0].isNear(m) {
			nearest = m.show()
		}
		if c.inOrder {
			if waiting[0].matches(m) {
				waiting, nearest = waiting[1:], "no event of its kind"
			}
		} else {
			waiting = slices.DeleteFunc(waiting, func(p pattern) bool { return p.matches(m) })
		}
		return len(waiting) > 0
	})
	var found []Difference
	for i := range waiting {
		found = append(found, differs("trace_has", waiting[i], nearest)...)
		if c.inOrder {
			break // those behind it had no chance
		}
		nearest = "(see above)"
	}
	return found
}

// traceNot wants that no event matches any of the patterns.
type traceNot struct{ patterns []pattern }

func parseTraceNot(_ string, value json.RawMessage) (check, error) {
	patterns, err := parsePatterns(value)
	return traceNot{patterns: patterns}, err
}

func (c traceNot) compare(r *result) []Difference {
	rec, found := r.readTrace("trace_not")
	if found != nil {
		return found
	}
	rec.replay(func(m moment) bool {
		for i := range c.patterns {
			if c.patterns[i].matches(m) {
				found = differs("trace_not", c.patterns[i], m.show())
				return false
			}
		}
		return true
	})
	return found
}
