package runner

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/trace"
)

// noise is text that does not compress below three quarters of its length.
func noise(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n*3/4+3)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return base64.StdEncoding.EncodeToString(b)[:n]
}

// noisyTrace has n events that carry about size bytes of noise each.
func noisyTrace(n, size int) *trace.Trace {
	t := &trace.Trace{Schema: trace.Schema}
	text := noise(n * size)
	for i := range n {
		value, err := json.Marshal(text[i*size : (i+1)*size])
		if err != nil {
			panic(err)
		}
		t.Events = append(t.Events, trace.Event{Seq: int64(i + 1), Kind: trace.KindReturn, Value: value})
	}
	return t
}

// space is what there is for a result in these tests, compressed; as it is, it
// may be 64 times that, as in real life. Real sizes would take the tests minutes under the race detector.
const space = 64 << 10

// newLoad measures with the real codec. Redis is not asked.
func newLoad(t *testing.T) measure {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0"})
	t.Cleanup(func() { _ = rdb.Close() })
	l, err := ledger.New(rdb, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return func(r job.Result) (float64, error) {
		raw, stored, err := l.ResultSize(r)
		return max(float64(raw)/(64*space), float64(stored)/space), err
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	load := newLoad(t)
	lines := map[string]int64{}
	for i, text := 0, noise(120_000); i < len(text); i += 12 {
		lines[text[i:i+12]] = int64(i)
	}
	for _, c := range []struct {
		name           string
		stdout, stderr string
		trace          *trace.Trace
		summary        *trace.Summary
		// the least that must be left
		events, stdoutLeft, stderrLeft int
		cutTrace, cutOut, cutErr       bool
		dropped                        bool
	}{
		{name: "fits", stdout: noise(space / 2), trace: noisyTrace(100, 10), events: 100, stdoutLeft: space / 2},
		{name: "large but compresses", stdout: strings.Repeat("spam\n", 10*space), trace: noisyTrace(100, 10), events: 100, stdoutLeft: 50 * space},
		{name: "events", trace: noisyTrace(1000, 200), events: 300, cutTrace: true},
		{name: "events before output", stdout: noise(space / 2), trace: noisyTrace(1000, 200), events: 100, stdoutLeft: space / 2, cutTrace: true},
		{name: "stdout", stdout: noise(4 * space), trace: noisyTrace(100, 10), events: 100, stdoutLeft: space / 2, cutOut: true},
		{name: "stdout and events", stdout: noise(4 * space), trace: noisyTrace(1000, 200), events: 50, stdoutLeft: space / 2, cutTrace: true, cutOut: true},
		{name: "a short stderr survives", stdout: noise(4 * space), stderr: noise(1000), stdoutLeft: space / 2, stderrLeft: 1000, cutOut: true},
		{name: "both streams", stdout: noise(4 * space), stderr: noise(4 * space), stdoutLeft: space / 4, stderrLeft: space / 4, cutOut: true, cutErr: true},
		{name: "too large as it is, not compressed", stdout: strings.Repeat("\x01", 16*space), stdoutLeft: 5 * space, cutOut: true},
		{name: "a summary that cannot be stored", stdout: noise(100), summary: &trace.Summary{Lines: map[string]map[string]int64{"main.py": lines}}, stdoutLeft: 100, dropped: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := job.Result{Schema: job.ResultSchema, ID: "a", Status: job.StatusOK, Encoding: job.EncodingUTF8, Stdout: c.stdout, Stderr: c.stderr, Trace: c.trace, Summary: c.summary}
			if c.trace != nil {
				r.Summary = &trace.Summary{EventsTotal: int64(len(c.trace.Events)), EventsKept: int64(len(c.trace.Events))}
			}
			got, err := fit(r, load)
			if err != nil {
				t.Fatal(err)
			}
			full, err := load(got)
			if err != nil || full > 1 {
				t.Fatalf("the result takes %.2f of the space, error %v", full, err)
			}
			if len(got.Stdout) < c.stdoutLeft || len(got.Stderr) < c.stderrLeft {
				t.Errorf("got %d and %d bytes of output, want at least %d and %d", len(got.Stdout), len(got.Stderr), c.stdoutLeft, c.stderrLeft)
			}
			if got.StdoutTruncated != c.cutOut || got.StderrTruncated != c.cutErr {
				t.Errorf("truncated: got %t, %t, want %t, %t", got.StdoutTruncated, got.StderrTruncated, c.cutOut, c.cutErr)
			}
			cut := c.cutTrace || c.cutOut || c.cutErr || c.dropped
			if cut != (len(got.Tracer.Notes) > 0) {
				t.Errorf("notes: got %q, cut %t", got.Tracer.Notes, cut)
			}
			if c.dropped != (r.Summary != nil && got.Summary == nil) {
				t.Errorf("got summary %v, dropped %t", got.Summary, c.dropped)
			}
			if c.trace != nil {
				checkEvents(t, c.trace, got, c.events, c.cutTrace)
			}
			t.Logf("%.2f of the space; %d events, %d and %d bytes; %q", full, eventCount(got), len(got.Stdout), len(got.Stderr), got.Tracer.Notes)
		})
	}
}

func eventCount(r job.Result) int {
	if r.Trace == nil {
		return 0
	}
	return len(r.Trace.Events)
}

func checkEvents(t *testing.T, before *trace.Trace, got job.Result, least int, cut bool) {
	t.Helper()
	n := len(got.Trace.Events)
	if n < least || cut != (n < len(before.Events)) {
		t.Errorf("got %d events of %d, want at least %d, cut %t", n, len(before.Events), least, cut)
	}
	if got.Summary.EventsKept != int64(n) {
		t.Errorf("got events_kept %d, want %d", got.Summary.EventsKept, n)
	}
	if !cut {
		return
	}
	want := trace.Gap{AfterSeq: int64(n), Skipped: int64(len(before.Events) - n), Cause: "byte_limit"}
	if !slices.Equal(got.Trace.Gaps, []trace.Gap{want}) || !got.Trace.Truncation.Events || !got.Trace.Truncation.Bytes {
		t.Errorf("got gaps %v, truncation %+v, want %v", got.Trace.Gaps, got.Trace.Truncation, want)
	}
	if len(before.Gaps) > 0 || before.Truncation.Events {
		t.Error("the trace that was given was changed")
	}
}

func TestFitMeasuresOften(t *testing.T) {
	t.Parallel()
	r := job.Result{Stdout: noise(1000), Trace: noisyTrace(100, 10)}
	calls := 0
	_, err := fit(r, func(job.Result) (float64, error) { calls++; return 2, nil })
	if err == nil || calls > 20 {
		t.Errorf("got error %v after %d measurements, want an error after a few", err, calls)
	}
	broken := errors.New("broken")
	if _, err := fit(r, func(job.Result) (float64, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of the measurement", err)
	}
}

func TestCapEventsKeepsGapsInOrder(t *testing.T) {
	t.Parallel()
	r := job.Result{Trace: &trace.Trace{
		Events: []trace.Event{{Seq: 1}, {Seq: 5}, {Seq: 6}, {Seq: 9}},
		Gaps:   []trace.Gap{{AfterSeq: 1, Skipped: 3, Cause: "corrupt"}, {AfterSeq: 6, Skipped: 2, Cause: "corrupt"}},
	}, Summary: &trace.Summary{EventsTotal: 9, EventsKept: 4}}
	got := capEvents(r, 2)
	want := []trace.Gap{{AfterSeq: 1, Skipped: 3, Cause: "corrupt"}, {AfterSeq: 5, Skipped: -1, Cause: "byte_limit"}}
	if !slices.Equal(got.Trace.Gaps, want) || len(r.Trace.Gaps) != 2 {
		t.Errorf("got gaps %v, want %v", got.Trace.Gaps, want)
	}
}
