package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/cli"
)

// transcript is a standard error that is read while it is written.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

var servingAt = regexp.MustCompile(`serving (http://[0-9.:]+)/`)

// startServe runs enqueuer serve until the test ends, and returns its address and what it says.
func startServe(t *testing.T, b *bench, args ...string) (base string, said *transcript) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	said = &transcript{}
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, append([]string{"serve", "--addr", "127.0.0.1:0", "--redis", b.url}, args...),
			streams{in: strings.NewReader(""), out: io.Discard, err: said, getenv: func(string) string { return "" }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	deadline := time.Now().Add(patience)
	for {
		if found := servingAt.FindStringSubmatch(said.String()); found != nil {
			return found[1], said
		}
		select {
		case err := <-done:
			done <- err
			t.Fatalf("serve ended: %v\n%s", err, said)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("serve says only: %s", said)
		}
	}
}

func fetch(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	got, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	data, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, string(data)
}

func TestServeOpen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	base, said := startServe(t, b)
	if text := said.String(); !strings.Contains(text, "WARNING: no tokens are in use") || !strings.Contains(text, "enqueuer token") {
		t.Errorf("it does not warn: %s", text)
	}
	wait := b.serve(t, "api-1")
	defer wait()
	if status, body := fetch(t, "POST", base+"/api/v1/traces?wait=20s", "", `{"code":"print('hi')","id":"api-1"}`); status != 200 || !strings.Contains(body, `"stdout":"hi\n"`) {
		t.Errorf("trace: got %d %s", status, body)
	}
	for path, want := range map[string]string{"/": "<title>Tracefleet", "/traces/api-1": "<title>Tracefleet", "/docs": "Tracefleet API", "/monitoring/": "Asynq", "/readyz": `"redis":true`, "/healthz": "ok", "/api/v1/openapi.json": `"3.1.0"`} {
		if status, body := fetch(t, "GET", base+path, "", ""); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: got %d %.200s", path, status, body)
		}
	}
}

// What is taken in and refused is counted where it is submitted.
func TestServeCountsWhatIsSubmitted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	base, said := startServe(t, b, "--metrics", "127.0.0.1:0", "--max-queue-jobs", "1")
	for _, want := range []int{202, 429} {
		if status, body := fetch(t, "POST", base+"/api/v1/traces", "", `{"code":"print('hi')"}`); status != want {
			t.Errorf("got %d %s, want %d", status, body, want)
		}
	}
	operators := regexp.MustCompile(`serving metrics and health.*"address": "([^"]+)"`)
	var metrics string
	for deadline := time.Now().Add(patience); metrics == ""; {
		if found := operators.FindStringSubmatch(said.String()); found != nil {
			_, metrics = fetch(t, "GET", "http://"+found[1]+"/metrics", "", "")
		} else if time.Now().After(deadline) {
			t.Fatalf("serve says only: %s", said)
		}
	}
	for _, want := range []string{
		"tracefleet_ledger_jobs_created_total 1", `tracefleet_ledger_jobs_refused_total{reason="queue"} 1`, `tracefleet_queue_tasks_enqueued_total{queue="default"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
}

func TestServeWithTokens(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	file := filepath.Join(t.TempDir(), "tokens")
	made := command(t.Context(), nil, "", "token", "--name", "me", "--role", "read", "--file", file)
	token := strings.TrimSpace(made.stdout)
	if made.code != cli.CodeDone || !strings.HasPrefix(token, "tf_") {
		t.Fatalf("token: got %+v", made)
	}
	if again := command(t.Context(), nil, "", "token", "--name", "me", "--file", file); again.code != cli.CodeRefused {
		t.Errorf("the same name: got code %d, want %d", again.code, cli.CodeRefused)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file: %v, %v", info.Mode(), err)
	}
	data, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(data), token) || !strings.HasPrefix(string(data), "me read * sha256:") {
		t.Errorf("file: %q, %v", data, err)
	}
	base, said := startServe(t, b, "--tokens", file)
	if strings.Contains(said.String(), "WARNING") {
		t.Errorf("it warns: %s", said)
	}
	for _, tt := range []struct {
		method, path, token string
		want                int
	}{
		{"GET", "/api/v1/limits", "", 401}, {"GET", "/api/v1/limits", token, 200}, {"POST", "/api/v1/traces", token, 403}, {"GET", "/monitoring/", token, 200},
		{"POST", "/monitoring/api/queues/x:pause", token, 403}, {"GET", "/healthz", "", 200},
	} {
		if status, body := fetch(t, tt.method, base+tt.path, tt.token, ""); status != tt.want {
			t.Errorf("%s %s: got %d %.200s, want %d", tt.method, tt.path, status, body, tt.want)
		}
	}
}

// TestServeReadsTokensAgain takes a token away from, and gives another one to, a running server; the file ends without a newline, as some
// editors leave it.
func TestServeReadsTokensAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	file := filepath.Join(t.TempDir(), "tokens")
	made := func(name string) string {
		got := command(t.Context(), nil, "", "token", "--name", name, "--role", "read", "--file", file)
		if got.code != cli.CodeDone {
			t.Fatalf("token: got %+v", got)
		}
		return strings.TrimSpace(got.stdout)
	}
	first := made("first")
	base, _ := startServe(t, b, "--tokens", file)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.TrimSpace(data), 0o600); err != nil {
		t.Fatal(err)
	}
	second := made("second")
	until := func(token string, want int) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for {
			status, _ := fetch(t, "GET", base+"/api/v1/limits", token, "")
			if status == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("got %d for a minute, want %d", status, want)
			}
			select {
			case <-t.Context().Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	until(second, 200)
	until(first, 200)
	if data, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(data, []byte("\n"))
	if err := os.WriteFile(file, rest, 0o600); err != nil {
		t.Fatal(err)
	}
	until(first, 401)
	until(second, 200)

	if err := os.WriteFile(file, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := command(t.Context(), nil, "", "token", "--name", "third", "--file", file); got.code != cli.CodeFailed || !strings.Contains(got.stderr, "line 1") {
		t.Errorf("adding to a file that cannot be used: got %+v", got)
	}
}

func TestServeCheck(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	base, _ := startServe(t, b)
	addr := strings.TrimPrefix(base, "http://")
	if got := b.command(t.Context(), "", "serve", "--check", "--addr", addr); got.code != cli.CodeDone || got.stderr != "" {
		t.Errorf("ready: got %+v", got)
	}
	_, port, _ := strings.Cut(addr, ":")
	if got := b.command(t.Context(), "", "serve", "--check", "--addr", "0.0.0.0:"+port); got.code != cli.CodeDone {
		t.Errorf("by every address: got %+v", got)
	}
	if got := b.command(t.Context(), "", "serve", "--check", "--addr", "127.0.0.1:1"); got.code != cli.CodeFailed || !strings.Contains(got.stderr, "does not answer") {
		t.Errorf("nobody there: got %+v", got)
	}
	if got := b.command(t.Context(), "", "serve", "--check", "--addr", "nowhere"); got.code != cli.CodeUsage {
		t.Errorf("no address: got %+v", got)
	}
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := tree(t, map[string]string{"empty": "# nothing\n", "bad": "tf_secretsecret\n", "secrets": "whsec_c2hvcnQ=\n"})
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, tt := range map[string]struct {
		args []string
		says string
	}{
		"open to others":      {[]string{"--addr", "0.0.0.0:0"}, "--tokens"},
		"every interface":     {[]string{"--addr", ":0"}, "--tokens"},
		"no such file":        {[]string{"--tokens", path("nothing")}, "no such file"},
		"no tokens":           {[]string{"--tokens", path("empty")}, "enqueuer token"},
		"a token in the file": {[]string{"--tokens", path("bad")}, "line 1"},
		"half of TLS":         {[]string{"--tls-cert", path("empty")}, "--tls-key"},
		"no secret":           {[]string{"--webhook-host", "x.example"}, "--webhook-secrets"},
		"a short secret":      {[]string{"--webhook-host", "x.example", "--webhook-secrets", path("secrets")}, "line 1"},
		"no host":             {[]string{"--webhook-host", "https://x"}, "webhook"},
		"no public URL":       {[]string{"--public-url", "traces.example.com"}, "--public-url"},
		"a path too many":     {[]string{"--public-url", "https://example.com/traces"}, "--public-url"},
	} {
		args := append([]string{"serve", "--addr", "127.0.0.1:0"}, tt.args...)
		got := b.command(t.Context(), "", args...)
		if got.code != cli.CodeUsage || !strings.Contains(got.stderr, tt.says) || strings.Contains(got.stderr, "secretsecret") {
			t.Errorf("%s: got code %d, stderr %q, want %d and %q", name, got.code, got.stderr, cli.CodeUsage, tt.says)
		}
	}
	if got := command(t.Context(), nil, "", "token", "--name", "a b"); got.code != cli.CodeUsage {
		t.Errorf("a bad name: got %+v", got)
	}
}
