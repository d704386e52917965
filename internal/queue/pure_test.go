package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/execra/tracefleet/internal/job"
)

func TestEnvelopeOnTheWire(t *testing.T) {
	t.Parallel()
	e := Envelope{ID: "job-1", Tenant: "acme", Name: "né \"<b>\" 🙂\x7f\n", Bytes: 12, SHA256: "ab"}
	doc, err := e.encode()
	if err != nil {
		t.Fatal(err)
	}
	// What runs in a fleet while it is upgraded: this must not drift.
	want := `{"v":1,"id":"job-1","tenant":"acme","name":"n\u00e9 \"<b>\" \ud83d\ude42\u007f\n","bytes":12,"sha256":"ab"}`
	if string(doc) != want {
		t.Errorf("got  %s\nwant %s", doc, want)
	}
	got, err := DecodeEnvelope(doc)
	e.V = EnvelopeVersion
	if err != nil || got != e {
		t.Errorf("decoded %+v, error %v", got, err)
	}
}

func TestEnvelopeIsBounded(t *testing.T) {
	t.Parallel()
	doc, err := Envelope{ID: "a", Name: strings.Repeat("🙂", 5000)}.encode()
	if err != nil || len(doc) > maxEnvelopeBytes {
		t.Errorf("%d bytes, error %v", len(doc), err)
	}
	for name, e := range map[string]Envelope{
		"no id": {}, "bad id": {ID: "a}b"}, "tenant": {ID: "a", Tenant: strings.Repeat("x", 5000)},
	} {
		if _, err := e.encode(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestDecodeEnvelopeRefuses(t *testing.T) {
	t.Parallel()
	for name, payload := range map[string]string{
		"nothing":       "",
		"no object":     `"a"`,
		"wrong version": `{"v":2,"id":"a"}`,
		"no id":         `{"v":1}`,
		"bad id":        `{"v":1,"id":"a b"}`,
		"unknown field": `{"v":1,"id":"a","code":"print(1)"}`,
		"two documents": `{"v":1,"id":"a"}{}`,
		"too large":     `{"v":1,"id":"a","name":"` + strings.Repeat("x", 5000) + `"}`,
		"wrong type":    `{"v":1,"id":7}`,
	} {
		if _, err := DecodeEnvelope([]byte(payload)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrCorrupt", name, err)
		}
	}
}

func FuzzDecodeEnvelope(f *testing.F) {
	f.Add([]byte(`{"v":1,"id":"job-1","tenant":"acme","name":"n\u00e9","bytes":12,"sha256":"ab"}`))
	f.Add([]byte(`{"v":1,"id":`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		e, err := DecodeEnvelope(payload)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("got %v, want ErrCorrupt", err)
			}
			return
		}
		doc, err := e.encode()
		if err != nil {
			return // its escapes make it too long
		}
		if again, err := DecodeEnvelope(doc); err != nil || again != e && len(doc) < maxEnvelopeBytes/2 {
			t.Errorf("%q: decoded %+v, again %+v, error %v", payload, e, again, err)
		}
	})
}

// What is read the short way is read the same the long way, and what encode writes can be read the short way.
func FuzzPlainEnvelope(f *testing.F) {
	for _, seed := range []Envelope{
		{ID: "job-1", Tenant: "acme", Name: "a b", Bytes: 454, SHA256: strings.Repeat("a", 64)},
		{ID: "job-1", Name: `a "b" \ é`, Bytes: -1},
	} {
		doc, err := seed.encode()
		if err != nil {
			f.Fatal(err)
		}
		var plain Envelope
		if got := plain.readPlain(string(doc)); got != !strings.Contains(seed.Name, "é") {
			f.Errorf("%s: read the short way: %v", doc, got)
		}
		f.Add(string(doc))
	}
	f.Add(`{"v":1,"id":"","tenant":"","name":"","bytes":007,"sha256":""}`)
	f.Fuzz(func(t *testing.T, payload string) {
		var plain Envelope
		if !plain.readPlain(payload) {
			return
		}
		if e, err := readEnvelope([]byte(payload)); err != nil || e != plain {
			t.Errorf("%q: got %+v, want %+v, %v", payload, plain, e, err)
		}
	})
}

func FuzzReport(f *testing.F) {
	f.Add("IndexError: list index out of range", int64(3))
	f.Add("\xff\x00🙂", int64(-1))
	f.Fuzz(func(t *testing.T, headline string, n int64) {
		doc, err := Report{Status: job.StatusOK, Headline: headline, StdoutBytes: n}.encode()
		if err != nil || len(doc) > maxReportBytes {
			t.Fatalf("%d bytes, error %v", len(doc), err)
		}
		for _, c := range doc {
			if c < ' ' || c > '~' {
				t.Fatalf("byte %#x in %q", c, doc)
			}
		}
	})
}

func TestRetryTable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		class          Class
		retry, counted bool
		first, fifth   time.Duration // the middle of the spread
	}{
		{ClassEngine, true, true, 2 * time.Second, 32 * time.Second},
		{ClassSandbox, true, true, 2 * time.Second, 32 * time.Second},
		{ClassStore, true, true, 2 * time.Second, 32 * time.Second},
		{ClassPanic, true, true, 2 * time.Second, 32 * time.Second},
		{ClassInternal, true, true, 2 * time.Second, 32 * time.Second},
		{"made up", true, true, 2 * time.Second, 32 * time.Second},
		{ClassDraining, true, false, 0, 0},
		{ClassBusy, true, false, 5 * time.Second, 5 * time.Second},
		{ClassLost, true, false, time.Second, time.Second},
		{ClassPermanent, false, false, 0, 0},
	} {
		r := RuleOf(tt.class)
		if r.Retry != tt.retry || r.Counted != tt.counted {
			t.Errorf("%s: %+v", tt.class, r)
		}
		for retried, middle := range map[int]time.Duration{0: tt.first, 4: tt.fifth, 60: min(r.Max, 2*time.Minute)} {
			for range 100 {
				if d := r.delay(retried); d < middle*3/4 || d > middle*5/4 {
					t.Fatalf("%s after %d retries: %s, want about %s", tt.class, retried, d, middle)
				}
			}
		}
	}
}

func TestClassOf(t *testing.T) {
	t.Parallel()
	base := errors.New("x")
	for _, tt := range []struct {
		err  error
		want Class
	}{
		{base, ClassInternal},
		{context.DeadlineExceeded, ClassInternal},
		{Transient(base, ClassStore), ClassStore},
		{fmt.Errorf("op: %w", Transient(base, ClassEngine)), ClassEngine},
		{Permanent(base), ClassPermanent},
		{Draining(base), ClassDraining},
		{fmt.Errorf("op: %w", ErrDraining), ClassDraining},
	} {
		if got := ClassOf(tt.err); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.err, got, tt.want)
		}
	}
	if Transient(nil, ClassStore) != nil || Permanent(nil) != nil || Draining(nil) != nil {
		t.Error("no error became one")
	}
	if !errors.Is(Transient(base, ClassStore), base) {
		t.Error("the error itself is lost")
	}
}

func TestWhatAsynqIsTold(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err            error
		counted, final bool
	}{
		"counted":  {newTaskError(errors.New("x"), ClassEngine, false), true, false},
		"last":     {newTaskError(errors.New("x"), ClassEngine, true), true, true},
		"draining": {newTaskError(errors.New("x"), ClassDraining, false), false, false},
		"lease":    {asynq.ErrLeaseExpired, false, false},
		"timeout":  {context.DeadlineExceeded, false, false},
		"other":    {errors.New("x"), true, false},
	} {
		if got := isFailure(tt.err); got != tt.counted {
			t.Errorf("%s: counted %v", name, got)
		}
		if got := errors.Is(tt.err, asynq.SkipRetry); got != tt.final {
			t.Errorf("%s: final %v", name, got)
		}
	}
	long := newTaskError(errors.New(strings.Repeat("é\n", 1000)), ClassEngine, false)
	if s := long.Error(); len(s) > maxErrorBytes || strings.Contains(s, "\n") || !utf8.ValidString(s) {
		t.Errorf("%d bytes: %q", len(s), s)
	}
}

func TestShards(t *testing.T) {
	t.Parallel()
	// Producers and workers of different versions must agree.
	got := map[int64]string{}
	for _, ahead := range []int64{0, 7, 8, 63, 64, 511, 512, 1 << 40} {
		name, err := Shards(4).name(job.QueueBatch, ahead)
		if err != nil {
			t.Fatal(err)
		}
		got[ahead] = name
	}
	want := map[int64]string{
		0: "batch:0", 7: "batch:0", 8: "batch:1", 63: "batch:1", 64: "batch:2", 511: "batch:2", 512: "batch:3", 1 << 40: "batch:3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := Shards(4).name("fast", 0); err == nil {
		t.Error("an unknown queue was taken")
	}
	wantWeights := map[string]int{"interactive:0": 48, "interactive:1": 12, "default:0": 24, "default:1": 6, "batch:0": 8, "batch:1": 2}
	if diff := cmp.Diff(wantWeights, Shards(2).weights()); diff != "" {
		t.Errorf("weights (-want +got):\n%s", diff)
	}
	for n, ok := range map[Shards]bool{-1: false, 0: false, 1: true, 5: true, 6: false} {
		if got := n.Validate() == nil; got != ok {
			t.Errorf("%d shards: valid %v", n, got)
		}
	}
}

func TestConfigReportsEveryFault(t *testing.T) {
	t.Parallel()
	err := Config{Shards: 99, MaxRetry: -1, TaskTimeout: time.Millisecond, Retention: time.Millisecond, Concurrency: -1, DrainGrace: -1, KillGrace: -1}.Validate()
	for _, field := range []string{"Shards", "MaxRetry", "TaskTimeout", "Retention", "Concurrency", "DrainGrace", "KillGrace"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("no fault of %s in: %v", field, err)
		}
	}
	if _, err := NewConsumer(nil, Config{}, nil, nil); err == nil {
		t.Error("a consumer without a handler was made")
	}
}
