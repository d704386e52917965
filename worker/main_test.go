package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/intake"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/redistest"
	"github.com/execra/tracefleet/internal/roster"
	"github.com/execra/tracefleet/internal/runner"
	"github.com/execra/tracefleet/internal/sandbox/pool"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds p.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String gives what was written.
func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// outcome is what one run of the command gave.
type outcome struct {
	stdout, stderr string
	code           int
}

func command(ctx context.Context, signals <-chan os.Signal, args ...string) outcome {
	var stdout, stderr buffer
	err := run(ctx, args, func(string) string { return "" }, signals, &stdout, &stderr)
	code := cli.Report(&stderr, name, err)
	return outcome{stdout: stdout.String(), stderr: stderr.String(), code: code}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"", "doctor"} {
		got := command(t.Context(), nil, append(strings.Fields(of), "--help")...)
		if got.code != cli.CodeDone || got.stderr != "" {
			t.Errorf("help of %q: got code %d, stderr %q, want 0 and nothing", of, got.code, got.stderr)
		}
		path := filepath.Join("testdata", "help"+of+".txt")
		if *update {
			if err := os.WriteFile(path, []byte(got.stdout), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.stdout); diff != "" {
			t.Errorf("%s (-want +got); go test -update writes it anew:\n%s", path, diff)
		}
	}
}

// TestDoctorFormat checks that a variable which is meant for the enqueuer, whose results have other
// forms, does not keep the doctor away.
func TestDoctorFormat(t *testing.T) {
	t.Parallel()
	getenv := func(key string) string { return map[string]string{"TRACEFLEET_FORMAT": "execra"}[key] }
	var stdout, stderr buffer
	err := run(t.Context(), []string{"doctor", "--redis", "embedded", "--image", "tracefleet/no-such-image:none"}, getenv, nil, &stdout, &stderr)
	if cli.Code(err) != cli.CodeFailed || !strings.Contains(stdout.String(), "redis") {
		t.Errorf("got %v and %q, want the table with a failed check", err, stdout.String())
	}
}

// TestWaitsForSandboxes checks that a job which waits in vain for a sandbox gets the pool's error, which says
// why, not the runner's time-out.
func TestWaitsForSandboxes(t *testing.T) {
	t.Parallel()
	if wait := (pool.Config{}).WithDefaults().MaxWait; wait >= runner.DefaultLaunchTimeout {
		t.Errorf("the pool waits for %v and the runner for %v, want the pool to give up first", wait, runner.DefaultLaunchTimeout)
	}
}

func TestRefusesToStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	evicting := redistest.Start(t, redistest.Options{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}})
	full := redistest.Start(t, redistest.Options{MaxMemoryBytes: 1})

	tests := map[string]struct {
		args []string
		code int
		says string
	}{
		"unknown flag":       {[]string{"--bogus"}, cli.CodeUsage, "--bogus"},
		"maximum too large":  {[]string{"--max-wall", "1h"}, cli.CodeUsage, "limits.wall_ms"},
		"maximum too small":  {[]string{"--max-memory", "1MiB"}, cli.CodeUsage, "limits.memory_bytes"},
		"jobs below none":    {[]string{"--concurrency=-1"}, cli.CodeUsage, "--concurrency"},
		"far too many jobs":  {[]string{"--concurrency", "100000"}, cli.CodeUsage, "--concurrency"},
		"warm below none":    {[]string{"--warm=-1"}, cli.CodeUsage, "--warm"},
		"far too many warm":  {[]string{"--warm", "999999"}, cli.CodeUsage, "--warm"},
		"unknown engine":     {[]string{"--engine", "podman"}, cli.CodeUsage, "--engine"},
		"unknown log level":  {[]string{"--log-level", "loud"}, cli.CodeUsage, "--log-level"},
		"bad port":           {[]string{"--redis", "embedded:x"}, cli.CodeUsage, "embedded:PORT"},
		"no such scheme":     {[]string{"--redis", "http://127.0.0.1"}, cli.CodeUsage, "--redis"},
		"Redis away":         {[]string{"--redis", "redis://:hidden@127.0.0.1:1/0"}, cli.CodeFailed, "worker --redis embedded"},
		"Redis is full":      {[]string{"--redis", full.URL()}, cli.CodeFailed, "it is full: raise its maxmemory"},
		"Redis evicts":       {[]string{"--redis", evicting.URL()}, cli.CodeFailed, "set maxmemory-policy noeviction"},
		"embedded, taken":    {[]string{"--redis", "embedded:" + port}, cli.CodeFailed, "embedded:PORT"},
		"image missing":      {[]string{"--redis", "embedded:0", "--image", "tracefleet/no-such-image:none"}, cli.CodeFailed, "make setup"},
		"runtime missing":    {[]string{"--redis", "embedded:0", "--runtime", "no-such-runtime"}, cli.CodeFailed, "no-such-runtime"},
		"metrics, taken":     {[]string{"--redis", "embedded:0", "--fleet", fleetName(t), "--metrics", taken.Addr().String()}, cli.CodeFailed, "--metrics"},
		"doctor, Redis away": {[]string{"doctor", "--redis", "redis://127.0.0.1:1/0"}, cli.CodeFailed, "a check failed"},
		"doctor, no image":   {[]string{"doctor", "--redis", "embedded", "--image", "tracefleet/no-such-image:none"}, cli.CodeFailed, "a check failed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := command(t.Context(), nil, tt.args...)
			last := got.stderr[strings.LastIndexByte(strings.TrimSuffix(got.stderr, "\n"), '\n')+1:]
			if got.code != tt.code || !strings.HasPrefix(last, "worker: ") || !strings.Contains(last, tt.says) {
				t.Errorf("got code %d and last %q, want code %d and %q", got.code, last, tt.code, tt.says)
			}
			if strings.Contains(got.stderr, "hidden") {
				t.Errorf("stderr shows the password: %q", got.stderr)
			}
		})
	}
}

// patience bounds what must happen in the end, also on a machine that is busy with other things.
const patience = 2 * time.Minute

// fleetName is a fleet of containers that no other test has.
func fleetName(t *testing.T) string {
	t.Helper()
	return "test-" + job.NewID(time.Now())
}

// TestRunsAJobAndDrains runs a whole worker with the embedded Redis and the real engine.
func TestRunsAJobAndDrains(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 1)
	var stderr buffer
	ended := make(chan error, 1)
	go func() {
		ended <- run(t.Context(), []string{"--redis", "embedded:0", "--fleet", fleetName(t), "--concurrency", "1", "--metrics", "127.0.0.1:0", "--max-events", "12345"},
			func(string) string { return "" }, signals, &buffer{}, &stderr)
	}()
	address := awaitReady(t, &stderr, ended)
	if !strings.Contains(stderr.String(), "nothing persists") {
		t.Errorf("the embedded Redis started without a notice: %s", stderr.String())
	}

	client, err := queue.OpenRedis(queue.RedisOptions{URL: address})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	book, err := ledger.New(client, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = book.Close() }()
	producer, err := queue.NewProducer(client, queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	desk, err := intake.New(book, producer, intake.Config{})
	if err != nil {
		t.Fatal(err)
	}
	limits := job.DefaultLimits()
	limits.WallMS = patience.Milliseconds()
	id, _, err := desk.Submit(t.Context(), job.Job{Files: map[string]string{"main.py": "print(6 * 7)\n"}, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	result, err := desk.Wait(t.Context(), id)
	if err != nil || result.Status != job.StatusOK || result.Stdout != "42\n" {
		t.Errorf("got status %q, stdout %q, error %v, want ok and 42", result.Status, result.Stdout, err)
	}
	board, deadline := roster.NewBoard(client), time.Now().Add(patience)
	for fleet, err := board.Look(t.Context()); err != nil || fleet.Workers != 1 || fleet.Maxima.TraceEvents != 12345; fleet, err = board.Look(t.Context()) {
		if time.Now().After(deadline) {
			t.Fatalf("the worker does not say what it takes: %+v, error %v", fleet, err)
		}
		<-time.After(20 * time.Millisecond)
	}
	signals <- syscall.SIGTERM
	if err := <-ended; err != nil {
		t.Errorf("got %v after SIGTERM, want nil\n%s", err, stderr.String())
	}
}

// awaitReady waits until the worker says that it is ready, and gives its Redis.
func awaitReady(t *testing.T, log *buffer, ended <-chan error) string {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		for line := range strings.Lines(log.String()) {
			var entry struct{ Message, Redis string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "worker is ready" {
				return entry.Redis
			}
		}
		select {
		case err := <-ended:
			t.Fatalf("the worker ended before it was ready (run `make setup`): %v\n%s", err, log.String())
		case <-ticker.C:
		}
	}
}

func TestEmbeddedRedisExpiresKeys(t *testing.T) {
	t.Parallel()
	e, err := startEmbedded("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.run(ctx) }()
	client, err := queue.OpenRedis(queue.RedisOptions{URL: e.url()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	const ttl = 400 * time.Millisecond
	start := time.Now()
	if err := client.Set(ctx, "k", "v", ttl).Err(); err != nil {
		t.Fatal(err)
	}
	for client.Exists(ctx, "k").Val() == 1 {
		if time.Since(start) > patience {
			t.Fatalf("the key is still there after %s", patience)
		}
	}
	if took := time.Since(start); took < ttl-tick {
		t.Errorf("the key was gone after %s, want about %s", took, ttl)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestDoctorJSON(t *testing.T) {
	t.Parallel()
	got := command(t.Context(), nil, "doctor", "--redis", "embedded", "--format", "json")
	var document struct {
		Healthy bool
		Checks  []struct{ Name, Status, Detail string }
	}
	if err := json.Unmarshal([]byte(got.stdout), &document); err != nil {
		t.Fatalf("got %+v: %v", got, err)
	}
	names := map[string]bool{}
	for _, row := range document.Checks {
		names[row.Name] = true
	}
	for _, want := range []string{"redis", "engine", "sandbox image", "runtime", "seccomp", "cgroups"} {
		if !names[want] {
			t.Errorf("no row %q (run `make setup`?): %s", want, got.stdout)
		}
	}
}
