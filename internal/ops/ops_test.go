package ops_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/execra/tracefleet/internal/ops"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNewLogger(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log, err := ops.NewLogger(ops.LogConfig{Format: ops.LogJSON, Level: "info", Output: zapcore.AddSync(&b)})
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("not written")
	log.Info("written", zap.String("job_id", "a"), zap.Duration("wait", 1500*time.Millisecond), zap.Error(errors.New("why")))
	var line map[string]any
	if err := json.Unmarshal(b.Bytes(), &line); err != nil {
		t.Fatalf("%v in %q", err, b.String())
	}
	if _, err := time.Parse(time.RFC3339, line["time"].(string)); err != nil {
		t.Error(err)
	}
	delete(line, "time")
	want := map[string]any{"level": "info", "message": "written", "job_id": "a", "wait": "1.5s", "error": "why"}
	if diff := cmp.Diff(want, line); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}

	b.Reset()
	log, err = ops.NewLogger(ops.LogConfig{Format: ops.LogConsole, Level: "warn", Output: zapcore.AddSync(&b)})
	if err != nil {
		t.Fatal(err)
	}
	log.Warn("readable", zap.Int("n", 1))
	if got := b.String(); !strings.Contains(got, "WARN\treadable\t{\"n\": 1}") {
		t.Errorf("got %q, want a console line", got)
	}
}

func TestNewLoggerRefuses(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]ops.LogConfig{
		`log level: must be debug, info, warn or error, got "loud"`:  {Format: ops.LogJSON, Level: "loud"},
		`log level: must be debug, info, warn or error, got ""`:      {Format: ops.LogJSON},
		`log level: must be debug, info, warn or error, got "panic"`: {Format: ops.LogJSON, Level: "panic"},
		`log format: must be json or console, got "xml"`:             {Format: "xml", Level: "info"},
	} {
		if _, err := ops.NewLogger(cfg); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var checks ops.Checks
		hang := make(chan struct{})
		add := func(name string, check ops.Check) {
			t.Helper()
			if err := checks.Add(name, time.Second, check); err != nil {
				t.Fatal(err)
			}
		}
		if reports, ready := checks.Run(t.Context()); !ready || len(reports) != 0 {
			t.Errorf("got %v, %t without checks, want ready", reports, ready)
		}
		add("good", func(context.Context) error { return nil })
		add("bad", func(context.Context) error { return errors.New("refused") })
		var started atomic.Int32
		add("deaf", func(context.Context) error { started.Add(1); <-hang; return nil })
		if err := checks.Add("good", time.Second, nil); err == nil {
			t.Error("a name was given twice")
		}

		want := []ops.CheckReport{
			{Name: "bad", Error: "refused"},
			{Name: "deaf", Error: "no answer within 1s", MS: 1000},
			{Name: "good", OK: true},
		}
		for range 3 {
			got, ready := checks.Run(t.Context())
			if diff := cmp.Diff(want, got); diff != "" || ready {
				t.Errorf("ready %t, reports (-want +got):\n%s", ready, diff)
			}
		}
		if got := started.Load(); got != 1 {
			t.Errorf("the hanging check was started %d times, want once", got)
		}
		close(hang)
		synctest.Wait()
		checks.Drain()
		got, ready := checks.Run(t.Context())
		last := ops.CheckReport{Name: "draining", Error: "draining: no new work is taken"}
		if ready || got[1].OK != true || got[len(got)-1] != last {
			t.Errorf("got %v, %t after Drain, want not ready and the hanging check well again", got, ready)
		}
	})
}

// TestChecksThatAnswerAtOnce holds a check's answer against the end of its own
// context, which follows it closely.
func TestChecksThatAnswerAtOnce(t *testing.T) {
	t.Parallel()
	var checks ops.Checks
	if err := checks.Add("quick", time.Minute, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for n := range 20_000 {
		if reports, ready := checks.Run(t.Context()); !ready {
			t.Fatalf("run %d: got %+v, want ready", n, reports)
		}
	}
}

func TestServer(t *testing.T) {
	t.Parallel()
	var checks ops.Checks
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := ops.Listen(ctx, "127.0.0.1:0", ops.NewRegistry(), &checks, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ops.Listen(ctx, s.Addr(), ops.NewRegistry(), &checks, zap.NewNop()); err == nil {
		t.Error("the address was bound twice")
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()

	client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := client.Get("http://" + s.Addr() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if code, body := get("/healthz"); code != 200 || body != "{\"status\":\"ok\"}\n" {
		t.Errorf("/healthz: got %d %q", code, body)
	}
	if code, body := get("/metrics"); code != 200 || !strings.Contains(body, "tracefleet_build_info{") || !strings.Contains(body, "go_goroutines") {
		t.Errorf("/metrics: got %d %q", code, body)
	}
	if code, _ := get("/readyz"); code != 200 {
		t.Errorf("/readyz: got %d, want 200", code)
	}
	if err := checks.Add("redis", time.Minute, func(context.Context) error { return errors.New("refused") }); err != nil {
		t.Fatal(err)
	}
	code, body := get("/readyz")
	var answer struct {
		Status string
		Checks []ops.CheckReport
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err)
	}
	want := []ops.CheckReport{{Name: "redis", Error: "refused"}}
	if diff := cmp.Diff(want, answer.Checks, cmpopts.IgnoreFields(ops.CheckReport{}, "MS")); code != 503 || answer.Status != "not ready" || diff != "" {
		t.Errorf("/readyz: got %d %q, want 503 with the check", code, body)
	}
	if code, _ := get("/debug/pprof/"); code != 404 {
		t.Errorf("/debug/pprof/: got %d, want 404", code)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}
