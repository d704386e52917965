package tracer_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/execra/tracefleet/internal/trace"
	"github.com/execra/tracefleet/internal/wire"
)

const (
	benchRounds = "5"
	benchScale  = "0.1"
)

// settings are the ways of tracing that are measured, in the order of the table.
var settings = []string{"full", "lines", "calls", "after_budget_exact", "after_budget"}

// measured is what tests/measure.py prints.
type measured struct {
	Seconds map[string]map[string][]float64   `json:"seconds"`
	Areas   map[string][wire.AreaCount][]byte `json:"areas"`
	Full    map[string][wire.AreaCount][]byte `json:"full"`
	Special map[string]map[string][]float64   `json:"special"`
	Start   map[string][]float64              `json:"start"`
}

// figures are slowdowns: CPU time traced divided by untraced.
type figures struct {
	Median float64 `json:"median"`
	Worst  float64 `json:"worst"`
}

// BenchmarkTracer measures what the tracer costs, and prints a table and one
// line of JSON. `make bench-tracer` runs it.
func BenchmarkTracer(b *testing.B) {
	m := measure(b)
	names := slices.Sorted(maps.Keys(m.Seconds))
	fmt.Printf("\n%-22s", "slowdown of CPU time")
	for _, s := range settings {
		fmt.Printf("%20s", s)
	}
	fmt.Println()
	ratios := map[string][]float64{}
	for _, name := range names {
		fmt.Printf("%-22s", name)
		for _, s := range settings {
			plain := "plain"
			if strings.HasPrefix(s, "after") {
				plain = "plain_long"
			}
			ratio := median(m.Seconds[name][s]) / median(m.Seconds[name][plain])
			ratios[s] = append(ratios[s], ratio)
			fmt.Printf("%20.2f", ratio)
		}
		fmt.Println()
	}
	line := map[string]any{}
	for _, s := range settings {
		line[s] = figures{round(median(ratios[s])), round(slices.Max(ratios[s]))}
	}
	line["events_per_s"] = int64(eventsPerSecond(m))
	line["compressed_bytes_per_10000_events"] = int64(median(compressed(b, m)))
	line["long_literal_added_ms"] = round(1000 * (median(m.Special["literal"]["traced"]) - median(m.Special["literal"]["plain"])))
	line["append_to_million_over_short"] = round(median(m.Special["append"]["traced"]) / median(m.Special["append"]["plain"]))
	line["start_added_ms"] = round(median(m.Start["traced"]) - median(m.Start["plain"]))
	text, err := json.Marshal(line)
	if err != nil {
		b.Fatal(err)
	}
	fmt.Println(string(text))
}

// measure runs tests/measure.py in the image.
func measure(b *testing.B) measured {
	b.Helper()
	here, err := filepath.Abs(".")
	if err != nil {
		b.Fatal(err)
	}
	args := []string{
		"run", "--rm", "--label", "tracefleet.test=tracer", "--network", "none", "--memory", "1g", "--pids-limit", "100",
		"--tmpfs", "/job:mode=1777,size=32m", "--tmpfs", "/tmp:mode=1777,size=32m", "--entrypoint", "/usr/bin/python3",
		"-v", here + ":/tracer:ro", image, "/tracer/tests/measure.py", benchRounds, benchScale,
	}
	workloads, err := filepath.Glob("testdata/bench/*.py")
	if err != nil || len(workloads) == 0 {
		b.Fatalf("no workloads: %v", err)
	}
	for _, w := range workloads {
		args = append(args, "/tracer/"+w)
	}
	command := exec.CommandContext(b.Context(), "docker", args...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		b.Fatalf("run in %s (is the image there? run `make setup`): %v", image, err)
	}
	var m measured
	if err := json.Unmarshal(out, &m); err != nil {
		b.Fatal(err)
	}
	return m
}

// eventsPerSecond is the median over the workloads of how many events with
// values are recorded in a second of CPU time, the program's own part included.
func eventsPerSecond(m measured) float64 {
	var rates []float64
	for name, areas := range m.Full {
		rec := trace.Decode(areas, trace.Options{Entrypoint: "main.py", Mode: "full"})
		rates = append(rates, float64(rec.Summary.EventsTotal)/median(m.Seconds[name]["full"]))
	}
	return median(rates)
}

// compressed is how many bytes 10,000 events of each workload take in a result.
func compressed(b *testing.B, m measured) []float64 {
	b.Helper()
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		b.Fatal(err)
	}
	var sizes []float64
	for _, areas := range m.Areas {
		rec := trace.Decode(areas, trace.Options{Entrypoint: "main.py", Mode: "full", EventBudget: 10_000})
		rec.Trace.Events = rec.Trace.Events[:min(len(rec.Trace.Events), 10_000)]
		text, err := json.Marshal(rec.Trace)
		if err != nil {
			b.Fatal(err)
		}
		sizes = append(sizes, float64(len(encoder.EncodeAll(text, nil))))
	}
	return sizes
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func round(f float64) float64 { return float64(int64(f*100+0.5)) / 100 }
