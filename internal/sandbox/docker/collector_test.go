package docker

import (
	"bytes"
	"testing"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/wire"
)

func TestExtend(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	var buf []byte
	var want []byte
	for n := 0; len(buf) < limit; n++ {
		data := bytes.Repeat([]byte{byte(n)}, min(1+n*37, limit-len(buf)))
		buf, want = extend(buf, data, limit), append(want, data...)
		if cap(buf) > limit {
			t.Fatalf("got a capacity of %d for %d bytes, want at most the limit of %d", cap(buf), len(buf), limit)
		}
	}
	if !bytes.Equal(buf, want) {
		t.Error("got other bytes than were put in")
	}
}

// FuzzCollector feeds arbitrary frames: whatever they hold, nothing grows over
// the job's limits, and a report that is taken can be true.
func FuzzCollector(f *testing.F) {
	f.Add(joined(frame(wire.Stdout, "out"), frame(wire.Stderr, "err"), frame(wire.Trace, "\x00ab"), frame(wire.End, endText)))
	f.Add(joined(frame(wire.Trace, "\x03"), frame(wire.Trace, ""), frame(wire.Fail, `{"error":"x"}`)))
	f.Add(joined(frame(wire.End, `{"signal":9,"killed":"wall","stdout_bytes":7,"oom_kills":-1}`)))
	f.Fuzz(func(t *testing.T, in []byte) {
		limits := job.MinLimits()
		c := newCollector(limits)
		frames := wire.NewDecoder(bytes.NewReader(in))
		for {
			got, err := frames.Next()
			if err != nil || c.take(got) != "" {
				break
			}
		}
		out := c.outcome()
		if int64(len(out.Stdout.Data)) > limits.OutputBytes || int64(len(out.Stderr.Data)) > limits.OutputBytes {
			t.Fatalf("kept %d and %d bytes of output", len(out.Stdout.Data), len(out.Stderr.Data))
		}
		if out.Stdout.Total < int64(len(out.Stdout.Data)) || out.Stderr.Total < int64(len(out.Stderr.Data)) {
			t.Fatalf("kept more than came: %+v", out)
		}
		for n, area := range out.Memory {
			if int64(len(area)) > c.areas[n].Capacity {
				t.Fatalf("area %d holds %d bytes", n, len(area))
			}
		}
		if end := out.End; end != nil && (end.ExitCode < 0 || end.ExitCode > 255 || end.Signal < 0 && !end.Exited || end.StdoutBytes < 0) {
			t.Fatalf("took %+v", end)
		}
	})
}
