package docker

import (
	"encoding/json"
	"fmt"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/wire"
)

// collector gathers what a sandbox sends. Everything it keeps has a bound that
// follows from the job's limits, whatever the sandbox sends: the supervisor
// caps as well, but the worker does not depend on that.
type collector struct {
	stdout, stderr sandbox.Stream
	memory         [wire.AreaCount][]byte
	end            *wire.EndInfo
	// fail is set when the sandbox itself is broken.
	fail error
	// invalid is set when it spoke nonsense.
	invalid string

	outputBytes int64
	areas       [wire.AreaCount]wire.Area
}

func newCollector(l job.Limits) *collector {
	c := &collector{outputBytes: l.OutputBytes}
	c.areas, _ = wire.MemoryLayout(l.TraceBytes)
	return c
}

// take adds one frame. It returns what is wrong with it, or "".
func (c *collector) take(f wire.Frame) (invalid string) {
	switch f.Type {
	case wire.Stdout:
		c.stream(&c.stdout, f.Payload)
	case wire.Stderr:
		c.stream(&c.stderr, f.Payload)
	case wire.Trace:
		return c.area(f.Payload)
	case wire.Fail:
		c.fail = failure(f.Payload)
	case wire.End:
		return c.report(f.Payload)
	default:
		return fmt.Sprintf("frame %q out of place", byte(f.Type))
	}
	return ""
}

func (c *collector) stream(s *sandbox.Stream, data []byte) {
	s.Total += int64(len(data))
	room := max(0, c.outputBytes-int64(len(s.Data)))
	s.Data = extend(s.Data, data[:min(int64(len(data)), room)], c.outputBytes)
}

// extend appends data to buf, whose length never passes limit. The capacity
// does not either, unlike that of append, and doubles until there: a flood
// leaves little garbage behind.
func extend(buf, data []byte, limit int64) []byte {
	const smallest = 4 << 10
	need := len(buf) + len(data)
	if need > cap(buf) {
		grown := make([]byte, len(buf), max(need, int(min(limit, max(smallest, 2*int64(cap(buf)))))))
		copy(grown, buf)
		buf = grown
	}
	return append(buf, data...)
}

func (c *collector) area(payload []byte) string {
	if len(payload) == 0 {
		return "empty TRACE frame"
	}
	n, data := int(payload[0]), payload[1:]
	if n >= wire.AreaCount {
		return fmt.Sprintf("TRACE frame for area %d", n)
	}
	if int64(len(c.memory[n])+len(data)) > c.areas[n].Capacity {
		return fmt.Sprintf("area %d of the trace memory is over its %d bytes", n, c.areas[n].Capacity)
	}
	c.memory[n] = extend(c.memory[n], data, c.areas[n].Capacity)
	return ""
}

// report takes END, as far as it can be true.
func (c *collector) report(payload []byte) string {
	var end wire.EndInfo
	if err := json.Unmarshal(payload, &end); err != nil {
		return "END is not readable"
	}
	if fault := end.Fault(); fault != "" {
		return fault
	}
	c.end = &end
	return ""
}

// outcome is what was gathered. The supervisor does not send what is past a
// cap, but counts it.
func (c *collector) outcome() sandbox.Outcome {
	out := sandbox.Outcome{
		End: c.end, Invalid: c.invalid, Stdout: c.stdout, Stderr: c.stderr, Memory: c.memory,
	}
	if c.end != nil {
		out.Stdout.Total = max(out.Stdout.Total, c.end.StdoutBytes)
		out.Stderr.Total = max(out.Stderr.Total, c.end.StderrBytes)
	}
	return out
}
