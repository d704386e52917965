package main

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	helpLine    = regexp.MustCompile(`(?m)^# HELP (tracefleet_\w+) `)
	labelOf     = regexp.MustCompile(`(\w+)="([^"]*)"`)
	metricName  = regexp.MustCompile(`tracefleet_[a-z0-9_]+`)
	metricRow   = regexp.MustCompile("(?m)^\\| `(tracefleet_\\w+)`")
	ofHistogram = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// scrape runs a whole worker and returns what it tells Prometheus.
func scrape(t *testing.T) string {
	t.Helper()
	signals := make(chan os.Signal, 1)
	var stderr buffer
	ended := make(chan error, 1)
	go func() {
		ended <- run(t.Context(), []string{"--redis", "embedded:0", "--fleet", fleetName(t), "--concurrency", "1", "--warm", "0", "--metrics", "127.0.0.1:0"},
			func(string) string { return "" }, signals, &buffer{}, &stderr)
	}()
	awaitReady(t, &stderr, ended)
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	defer func() {
		signals <- syscall.SIGTERM
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	deadline := time.After(patience)
	for {
		// The census takes a moment for its first count.
		if text := get(t, client, addressIn(stderr.String())); strings.Contains(text, "tracefleet_fleet_queue_wait_seconds") {
			return text
		}
		select {
		case <-deadline:
			t.Fatal("the worker does not tell of the fleet")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// addressIn is where the worker said that it serves metrics.
func addressIn(log string) string {
	for line := range strings.Lines(log) {
		var entry struct{ Message, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "serving metrics and health" {
			return entry.Address
		}
	}
	return ""
}

func get(t *testing.T, client *http.Client, address string) string {
	t.Helper()
	if address == "" {
		return ""
	}
	answer, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every metric is described in docs/operations.md, and what the alerts, the dashboard and the documents speak of exists.
func TestMetricsAreDescribed(t *testing.T) {
	t.Parallel()
	text := scrape(t)
	exported := map[string]bool{}
	for _, m := range helpLine.FindAllStringSubmatch(text, -1) {
		exported[m[1]] = true
	}
	described := map[string]bool{}
	docs := read(t, "docs/operations.md")
	for _, m := range metricRow.FindAllStringSubmatch(docs, -1) {
		described[m[1]] = true
	}
	for name := range exported {
		if !described[name] {
			t.Errorf("%s has no row in docs/operations.md", name)
		}
	}
	for _, file := range []string{"docs/operations.md", "deploy/monitoring/alerts.yml", "deploy/monitoring/dashboard.json"} {
		found := metricName.FindAllString(read(t, file), -1)
		if len(found) < 10 {
			t.Errorf("%s speaks of %d metrics only", file, len(found))
		}
		for _, name := range found {
			if !exported[name] && !exported[ofHistogram.ReplaceAllString(name, "")] && !strings.HasSuffix(name, "_") {
				t.Errorf("%s speaks of %s, which does not exist", file, name)
			}
		}
	}
	if !json.Valid([]byte(read(t, "deploy/monitoring/dashboard.json"))) {
		t.Error("the dashboard is no JSON")
	}
}

// Labels come from closed sets: no id, name or tenant is ever one.
func TestLabelsAreClosedSets(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"class", "go", "how", "le", "op", "outcome", "phase", "queue", "reason", "repair", "revision", "source", "state", "status", "version", "quantile",
	}
	seen := map[string]map[string]bool{}
	for line := range strings.Lines(scrape(t)) {
		if !strings.HasPrefix(line, "tracefleet_") {
			continue
		}
		for _, m := range labelOf.FindAllStringSubmatch(line, -1) {
			if seen[m[1]] == nil {
				seen[m[1]] = map[string]bool{}
			}
			seen[m[1]][m[2]] = true
		}
	}
	for _, label := range slices.Sorted(maps.Keys(seen)) {
		if !slices.Contains(allowed, label) {
			t.Errorf("label %s with values %v is not among those that are allowed", label, slices.Sorted(maps.Keys(seen[label])))
		}
		if n := len(seen[label]); n > 100 {
			t.Errorf("label %s has %d values", label, n)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
