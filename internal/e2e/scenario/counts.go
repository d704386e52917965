package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// count is a wanted number: one value, or bounds of which one may be open.
type count struct {
	min, max *float64
	given    json.RawMessage
}

// UnmarshalJSON reads a number or {"min": a, "max": b}.
func (c *count) UnmarshalJSON(data []byte) error {
	c.given = bytes.Clone(data)
	if exact, isNumber := number(data); isNumber {
		c.min, c.max = &exact, &exact
		return nil
	}
	var bounds struct {
		Min *float64 `json:"min"`
		Max *float64 `json:"max"`
	}
	if err := strict(data, &bounds); err != nil {
		return fmt.Errorf("neither a number nor bounds: %w", err)
	}
	if bounds.Min == nil && bounds.Max == nil {
		return errors.New("bounds without min and max")
	}
	c.min, c.max = bounds.Min, bounds.Max
	return nil
}

// fits tells whether a JSON value is a number within the bounds.
func (c count) fits(got json.RawMessage) bool {
	n, isNumber := number(got)
	return isNumber && (c.min == nil || n >= *c.min) && (c.max == nil || n <= *c.max)
}

// counts are wanted numbers by name.
type counts map[string]count

// compare checks each number against those of a result; one that is not there
// counts as absent.
func (c counts) compare(prefix string, got map[string]json.RawMessage, absent json.RawMessage) []Difference {
	var found []Difference
	for _, name := range sortedKeys(c) {
		value, there := got[name]
		if !there {
			value = absent
		}
		switch {
		case value == nil:
			found = append(found, differs(prefix+name, c[name].given, missing)...)
		case !c[name].fits(value):
			found = append(found, differs(prefix+name, c[name].given, value)...)
		}
	}
	return found
}

// zero stands for a line or function that never ran: it need not be listed.
const zero = "0"

// summary is the part of a result that counts.
type summary struct {
	Lines map[string]map[string]json.RawMessage `json:"lines"`
	Calls map[string]json.RawMessage            `json:"calls"`
	Loops []struct {
		File       string          `json:"file"`
		Line       int             `json:"line"`
		Iterations json.RawMessage `json:"iterations"`
	} `json:"loops"`
}

// readSummary reports a difference when there is no summary.
func (r *result) readSummary(key string, into any) []Difference {
	if value, found := r.fields["summary"]; found && isNull(value) {
		return []Difference{{Key: key, Want: "a summary", Got: "null"}}
	}
	return r.read(key, "summary", into)
}

// lineCounts wants how often lines ran, by file and line.
type lineCounts map[string]counts

func parseLines(_ string, value json.RawMessage) (check, error) {
	want := lineCounts{}
	return want, strict(value, &want)
}

func (c lineCounts) compare(r *result) []Difference {
	var got summary
	if d := r.readSummary("lines", &got); d != nil {
		return d
	}
	if got.Lines == nil {
		return differs("lines", c, missing)
	}
	var found []Difference
	for _, file := range sortedKeys(c) {
		found = append(found, c[file].compare("lines "+file+":", got.Lines[file], json.RawMessage(zero))...)
	}
	return found
}

// MarshalJSON shows the wanted number as it was given.
func (c count) MarshalJSON() ([]byte, error) { return c.given, nil }

// callCounts wants how often functions were started.
type callCounts counts

func parseCalls(_ string, value json.RawMessage) (check, error) {
	want := callCounts{}
	return want, strict(value, &want)
}

func (c callCounts) compare(r *result) []Difference {
	var got summary
	if d := r.readSummary("calls", &got); d != nil {
		return d
	}
	if got.Calls == nil {
		return differs("calls", c, missing)
	}
	return counts(c).compare("calls ", got.Calls, json.RawMessage(zero))
}

// loopCounts wants how often the bodies of loops were entered.
type loopCounts []loopCount

type loopCount struct {
	File       string `json:"file"`
	Line       int    `json:"line"`
	Iterations *count `json:"iterations"`
}

func parseLoops(_ string, value json.RawMessage) (check, error) {
	var want loopCounts
	if err := strict(value, &want); err != nil {
		return nil, err
	}
	for i, loop := range want {
		if loop.Line == 0 || loop.Iterations == nil {
			return nil, fmt.Errorf("loop %d: line and iterations are needed", i)
		}
		if loop.File == "" {
			want[i].File = "main.py"
		}
	}
	return want, nil
}

func (c loopCounts) compare(r *result) []Difference {
	var got summary
	if d := r.readSummary("loops", &got); d != nil {
		return d
	}
	var found []Difference
	for _, want := range c {
		fits := false
		for _, loop := range got.Loops {
			fits = fits || loop.File == want.File && loop.Line == want.Line && want.Iterations.fits(loop.Iterations)
		}
		if !fits {
			found = append(found, differs(fmt.Sprintf("loops %s:%d", want.File, want.Line), want.Iterations, got.Loops)...)
		}
	}
	return found
}

// summaryCount wants one number of the summary.
type summaryCount struct {
	key  string
	want count
}

func parseSummaryCount(key string, value json.RawMessage) (check, error) {
	c := summaryCount{key: key}
	err := strict(value, &c.want)
	return c, err
}

func (c summaryCount) compare(r *result) []Difference {
	var got map[string]json.RawMessage
	if d := r.readSummary(c.key, &got); d != nil {
		return d
	}
	return counts{c.key: c.want}.compare("", got, nil)
}

// usage wants bounds on what the run took.
type usage counts

func parseUsage(_ string, value json.RawMessage) (check, error) {
	var known struct {
		WallMS         *count `json:"wall_ms"`
		CPUMS          *count `json:"cpu_ms"`
		MaxMemoryBytes *count `json:"max_memory_bytes"`
	}
	if err := strict(value, &known); err != nil {
		return nil, err
	}
	want := usage{}
	return want, strict(value, &want)
}

func (c usage) compare(r *result) []Difference {
	var got map[string]json.RawMessage
	if d := r.read("usage", "usage", &got); d != nil {
		return d
	}
	return counts(c).compare("usage.", got, nil)
}
