package viewer

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/execra/tracefleet/internal/job"
)

func handler(t testing.TB) http.Handler {
	t.Helper()
	h, err := Handler()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func get(t testing.TB, h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPaths(t *testing.T) {
	t.Parallel()
	h := handler(t)
	script := regexp.MustCompile(`/assets/app-[0-9a-f]+\.js`).FindString(get(t, h, "GET", "/").Body.String())
	tests := map[string]struct {
		method, path string
		status       int
	}{
		"editor":           {"GET", "/", 200},
		"run":              {"GET", "/traces/01a22d0f-ac0b", 200},
		"head":             {"HEAD", "/", 200},
		"script":           {"GET", script, 200},
		"no id":            {"GET", "/traces/", 404},
		"below a run":      {"GET", "/traces/a/b", 404},
		"other":            {"GET", "/index.html", 404},
		"unhashed asset":   {"GET", "/assets/app.js", 404},
		"out of the tree":  {"GET", "/assets/../doc.go", 404},
		"posting to it":    {"POST", "/", 405},
		"deleting a trace": {"DELETE", "/traces/a", 405},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := get(t, h, tt.method, tt.path); got.Code != tt.status {
				t.Errorf("%s %s: got %d, want %d", tt.method, tt.path, got.Code, tt.status)
			}
		})
	}
}

func TestHeadersAndNotice(t *testing.T) {
	t.Parallel()
	w := get(t, handler(t), "GET", "/")
	for name, want := range map[string]string{
		"Content-Security-Policy":    Policy,
		"X-Content-Type-Options":     "nosniff",
		"Referrer-Policy":            "no-referrer",
		"Cross-Origin-Opener-Policy": "same-origin",
		"Content-Type":               "text/html; charset=utf-8",
		"Cache-Control":              "no-cache",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if body := w.Body.String(); !strings.Contains(body, `content="`+job.SandboxNotice+`"`) {
		t.Error("the page does not hold the notice")
	}
	for _, unsafe := range []string{"unsafe-inline", "unsafe-eval", "http:", "https:", "*"} {
		if strings.Contains(Policy, unsafe) {
			t.Errorf("the policy allows %s", unsafe)
		}
	}
}

func TestAssetsAreSmallAndKept(t *testing.T) {
	t.Parallel()
	h := handler(t)
	script := regexp.MustCompile(`/assets/app-[0-9a-f]+\.js`).FindString(get(t, h, "GET", "/").Body.String())
	plain := get(t, h, "GET", script)
	small := get(t, h, "GET", script, "Accept-Encoding", "br, gzip")
	if got := small.Header().Get("Content-Encoding"); got != "gzip" {
		t.Fatalf("Content-Encoding: got %q", got)
	}
	if refused := get(t, h, "GET", script, "Accept-Encoding", "gzip;q=0"); refused.Header().Get("Content-Encoding") != "" {
		t.Error("gzip was sent to a client that refuses it")
	}
	t.Logf("script: %d bytes, %d compressed", plain.Body.Len(), small.Body.Len())
	r, err := gzip.NewReader(small.Body)
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(unpacked, plain.Body.Bytes()) {
		t.Errorf("the compressed script is another one: %v", err)
	}
	if got := plain.Header().Get("Cache-Control"); !strings.Contains(got, "immutable") {
		t.Errorf("Cache-Control: got %q", got)
	}
	again := get(t, h, "GET", script, "If-None-Match", plain.Header().Get("ETag"))
	if again.Code != http.StatusNotModified || again.Body.Len() != 0 {
		t.Errorf("with its ETag: got %d and %d bytes", again.Code, again.Body.Len())
	}
}
