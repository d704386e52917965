package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	t.Parallel()
	var hundred sample
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i)*time.Millisecond)
	}
	for name, tt := range map[string]struct {
		s    sample
		q    float64
		want float64
	}{
		"nothing":     {nil, 0.5, 0},
		"one":         {sample{3 * time.Millisecond}, 0.99, 3},
		"median":      {hundred, 0.5, 50},
		"99th":        {hundred, 0.99, 99},
		"least":       {hundred, 0, 1},
		"fewer there": {hundred[:10], 0.99, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.s.quantile(tt.q); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// Each contender is measured in its share of the rounds, and only while all are at rest.
func TestInterleave(t *testing.T) {
	t.Parallel()
	var asked int
	contend := func(name string, every int) *contender {
		return &contender{
			name: name, every: every,
			ready: func(context.Context) error { asked++; return nil },
			once:  func(context.Context) (time.Duration, error) { return time.Millisecond, nil },
		}
	}
	always, seldom := contend("always", 1), contend("seldom", 3)
	if err := interleave(t.Context(), 7, []*contender{always, seldom}); err != nil {
		t.Fatal(err)
	}
	if len(always.took) != 7 || len(seldom.took) != 3 || asked != 2*(7+3) {
		t.Errorf("got %d and %d measurements, asked %d times", len(always.took), len(seldom.took), asked)
	}
}

func TestTurn(t *testing.T) {
	t.Parallel()
	var m meter
	var done atomic.Int64
	if err := m.turn(t.Context(), 3, 2, 0, func(context.Context) error { done.Add(1); return nil }); err != nil {
		t.Fatal(err)
	}
	if m.count != 3 || done.Load() < 5 || m.took <= 0 {
		t.Errorf("counted %d of %d in %s", m.count, done.Load(), m.took)
	}
	broken := errors.New("broken")
	if err := m.turn(t.Context(), 3, 2, time.Hour, func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// The last line is one JSON object with the ratios, null where nothing was measured.
func TestReport(t *testing.T) {
	t.Parallel()
	r := newReport("quick")
	r.idle("a", sample{8 * time.Millisecond})
	r.idle("d", sample{6 * time.Millisecond})
	r.full(1, 10, 9)
	r.full(2, 12, 13)
	r.queue(meter{count: 4, took: time.Second}, meter{count: 2, took: time.Second}, meter{count: 10, took: time.Second}, meter{count: 6, took: time.Second})
	var text bytes.Buffer
	if err := r.write(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	var got struct {
		Ratios map[string]*float64 `json:"ratios"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"idle_p50": 0.75, "idle_p99": 0.75, "throughput": 0.9, "queue": 0.6, "submit": 0.5} {
		if x := got.Ratios[name]; x == nil || *x != want {
			t.Errorf("%s: got %v, want %v", name, x, want)
		}
	}
	if x, ok := got.Ratios["idle_gvisor_p50"]; !ok || x != nil {
		t.Errorf("idle_gvisor_p50: got %v, %v, want null", x, ok)
	}
	if !strings.Contains(strings.Join(strings.Fields(text.String()), " "), "gVisor not available") {
		t.Errorf("the table does not say what is not available:\n%s", text.String())
	}
}

// What a process has used so far is more than nothing once it has worked, and cannot be told of one that is not there.
func TestProcessorTime(t *testing.T) {
	t.Parallel()
	deadline := time.Now().Add(time.Minute)
	for n := 0; ; n++ { // work, until it shows
		used, err := processorTime(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if used > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing used after reading it %d times", n)
		}
	}
	if used, err := processorTime(1 << 30); err == nil {
		t.Errorf("got %v of a process that cannot be", used)
	}
}

func TestReportAtRest(t *testing.T) {
	t.Parallel()
	r := newReport("quick")
	r.Rest = &rest{Sandboxes: 4, SandboxBytes: 20 << 20, WorkerBytes: 30 << 20, WorkerCPU: 2.5}
	var text bytes.Buffer
	if err := r.write(&text); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{"4 waiting sandboxes 20.0 0.00", "the worker 30.0 2.50", `"sandbox_bytes":20971520`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the report:\n%s", want, text.String())
		}
	}
}
