package api

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/execra/tracefleet/internal/api/access"
	"github.com/execra/tracefleet/internal/webhook"
)

// logBook is a log that is read while it is written.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestLogsTellNoSecrets sends secrets in every place that has room for one, with line ends where there may be some, and reads the log at its most
// talkative: it holds none of them, and no line that we did not write.
func TestLogsTellNoSecrets(t *testing.T) {
	t.Parallel()
	log := &logBook{}
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(log), zap.DebugLevel)
	f, names := guarded(t, func(c *Config) { c.Log = zap.New(core); c.Targets = webhook.Targets{Hosts: []string{"*"}} })
	const secret = "hunter2"
	f.token = names["submit"]
	f.submit(`{"code":"` + secret + `","stdin":"` + secret + `","name":"` + secret + `","labels":{"k":"` + secret + `"},"id":"id-of-` + secret + `"}`)
	for _, path := range []string{"/traces/id-of-" + secret, "/traces/id-of-" + secret + "/input", "/traces/" + secret + "%0a%7b%22level%22%3a", "/nothing/" + secret, "/traces/x?" + secret + "=" + secret, "/batches/" + secret} {
		f.get(path, "traceparent", secret, "X-Request-Id", secret, "User-Agent", secret, "Idempotency-Key", secret, "Cookie", access.CookieName+"="+secret)
	}
	for _, body := range []string{`{"code":"` + secret, `{"` + secret + `":1}`, `{"code":"1","callback_url":"https://` + secret + `@x.example/"}`} {
		f.post("/traces", body)
	}
	f.request("POST", "/login", url.Values{"token": {"tf_" + secret}, "next": {"/" + secret}}.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	f.request("POST", "/login", url.Values{"token": {names["read"]}}.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	f.get("/limits", "Authorization", "Bearer tf_"+secret)
	f.redis.Kill()
	f.get("/traces/nobody")
	eventually(t, "the last request is in the log", func() (bool, any) { return strings.Contains(log.String(), `"request failed"`), log.String() })
	lines := 0
	for scan := bufio.NewScanner(strings.NewReader(log.String())); scan.Scan(); lines++ {
		var entry struct{ Level, Msg string }
		if err := json.Unmarshal(scan.Bytes(), &entry); err != nil || entry.Level == "" || entry.Msg == "" {
			t.Errorf("a line that is none of ours: %s", scan.Text())
		}
	}
	text := log.String()
	if lines < 10 {
		t.Errorf("the log has %d lines only", lines)
	}
	for _, told := range append([]string{secret}, names["submit"], names["read"]) {
		if at := strings.Index(text, told); at >= 0 {
			t.Errorf("the log tells a secret: …%s", text[max(0, at-200):at])
		}
	}
}

// TestTLS serves over TLS, where browsers and many clients speak HTTP/2: waits, streams, bodies that never come, and the cookie.
func TestTLS(t *testing.T) {
	t.Parallel()
	f, names := guarded(t, nil)
	stand := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate, and a client that knows it
	defer stand.Close()
	s, err := f.api.Listen(t.Context(), "127.0.0.1:0", 0, &tls.Config{Certificates: stand.TLS.Certificates, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	f.runServer(s)
	transport, _ := stand.Client().Transport.(*http.Transport)
	transport.ForceAttemptHTTP2 = true
	f.base = "https://" + s.Addr()
	f.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	f.token = names["submit"]
	id := f.submit(`{"code":"1"}`)
	done := make(chan answer, 1)
	go func() { done <- f.get("/traces/" + id + "?wait=30s") }()
	seen := make(chan []string, 1)
	go func() {
		_, events := f.sse("/traces/"+id+"/events", "", 0, "Authorization", "Bearer "+f.token)
		seen <- events
	}()
	eventually(t, "both wait", func() (bool, any) { n := f.api.waiters.taken(); return n == 2, n })
	f.finish(id)
	if got := <-done; got.status != 200 || !strings.Contains(got.body, `"result":{`) {
		t.Errorf("wait: got %d %s", got.status, got.body)
	}
	if got := <-seen; len(got) != 3 {
		t.Errorf("events: got %v", got)
	}
	got := f.request("POST", "/login", url.Values{"token": {names["read"]}}.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	if cookie := got.header.Get("Set-Cookie"); got.status != 303 || !strings.Contains(cookie, "; Secure") {
		t.Errorf("sign in: got %d %q, want a cookie for TLS only", got.status, cookie)
	}
	body, sent := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.base+Prefix+"/traces", body)
	if err != nil {
		t.Fatal(err)
	}
	answered, err := f.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = sent.Close()
	_ = answered.Body.Close()
	if answered.StatusCode != 401 || answered.ProtoMajor != 2 {
		t.Errorf("a body that never comes: got %d over %s, want 401 over HTTP/2", answered.StatusCode, answered.Proto)
	}
}
