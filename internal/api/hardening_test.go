package api

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/api/monitor"
)

// TestUnreadBodies announces bodies that never come, to requests whose answer does not depend on them: an answer that waited
// for them would let a stranger keep connections for ever.
func TestUnreadBodies(t *testing.T) {
	t.Parallel()
	f, _ := guarded(t, nil)
	for name, tt := range map[string]struct {
		request string
		want    int
	}{
		"no token":     {"POST " + Prefix + "/traces", 401},
		"no path":      {"POST /nothing", 404},
		"health":       {"GET /healthz", 200},
		"page":         {"GET /login", 200},
		"monitoring":   {"POST " + monitor.Path + "/api/queues/x:pause", 401},
		"a method":     {"PUT " + Prefix + "/traces", 405},
		"an operation": {"DELETE " + Prefix + "/traces/x", 401},
	} {
		for _, length := range []string{"Content-Length: 10", "Transfer-Encoding: chunked"} {
			t.Run(name+", "+length, func(t *testing.T) {
				t.Parallel()
				c := dial(t, f)
				if _, err := fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", tt.request, length); err != nil {
					t.Fatal(err)
				}
				_ = c.SetReadDeadline(time.Now().Add(time.Minute))
				r := bufio.NewReader(c)
				got, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				_ = got.Body.Close()
				if got.StatusCode != tt.want {
					t.Errorf("got %d, want %d", got.StatusCode, tt.want)
				}
			})
		}
	}
}

// timedWriter notes whether a deadline was set before the first byte of an answer.
type timedWriter struct {
	*httptest.ResponseRecorder
	deadline time.Time
	late     []string
}

func (w *timedWriter) SetReadDeadline(time.Time) error    { return nil }
func (w *timedWriter) SetWriteDeadline(d time.Time) error { w.deadline = d; return nil }
func (w *timedWriter) check(what string) {
	if left := time.Until(w.deadline); left <= 0 || left > writeTimeout {
		w.late = append(w.late, fmt.Sprintf("%s with %s left to write", what, left))
	}
}
func (w *timedWriter) WriteHeader(status int) {
	w.check("header")
	w.ResponseRecorder.WriteHeader(status)
}
func (w *timedWriter) Write(b []byte) (int, error) {
	w.check("body")
	return w.ResponseRecorder.Write(b)
}

// TestEveryAnswerHasADeadline asks for every kind of answer, and checks that a client that does not read it is cut off.
func TestEveryAnswerHasADeadline(t *testing.T) {
	t.Parallel()
	f, names := guarded(t, nil)
	f.token = names["operate"]
	f.submit(`{"code":"1","id":"a"}`)
	f.finish("a")
	for _, path := range []string{
		"/", "/docs", "/login", "/healthz", "/readyz", "/nothing", "/assets/app.js", monitor.Path + "/", monitor.Path + "/api/queues", monitor.Path + "/static/js/x.js",
		Prefix + "/openapi.json", Prefix + "/limits", Prefix + "/traces/a", Prefix + "/traces/a/input", Prefix + "/traces/a/events", Prefix + "/traces/nobody", Prefix + "/dead-letters",
	} {
		w := &timedWriter{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer "+f.token)
		f.api.Handler().ServeHTTP(w, r)
		if w.Code == 0 || len(w.late) > 0 {
			t.Errorf("%s: got %d, %v", path, w.Code, w.late)
		}
	}
}

func TestShares(t *testing.T) {
	t.Parallel()
	s := newShares(10, 6)
	for i, step := range []struct {
		name string
		n    int64
		want bool
	}{{"a", 6, true}, {"a", 1, false}, {"b", 5, false}, {"b", 4, true}, {"c", 1, false}} {
		if got := s.take(step.name, step.n); got != step.want {
			t.Errorf("step %d, %s takes %d: got %t", i, step.name, step.n, got)
		}
	}
	s.give("a", 6)
	if s.taken() != 4 || len(s.byName) != 1 || !s.take("c", 6) {
		t.Errorf("after it: %d taken, %v", s.taken(), s.byName)
	}
}

// TestOneTokenLeavesSomeToOthers has one token wait, and send, as much as it may.
func TestOneTokenLeavesSomeToOthers(t *testing.T) {
	t.Parallel()
	f, names := guarded(t, func(c *Config) { c.MaxWaiters = 4 })
	f.token = names["submit"]
	f.submit(`{"code":"1","id":"a"}`)
	done := make(chan answer, 2)
	for range 2 {
		go func() { done <- f.get("/traces/a?wait=30s") }()
	}
	eventually(t, "two wait", func() (bool, any) { n := f.api.waiters.taken(); return n == 2, n })
	if got := f.get("/traces/a/events"); got.status != 503 || got.problem(t).Type != ProblemType+"busy" {
		t.Errorf("a third of the same token: got %d %s", got.status, got.body)
	}
	other := make(chan int, 1)
	go func() {
		status, _ := f.sse("/traces/a/events", "", 0, "Authorization", "Bearer "+names["read"])
		other <- status
	}()
	eventually(t, "another token's waits", func() (bool, any) { n := f.api.waiters.taken(); return n == 3, n })
	f.finish("a")
	for range 2 {
		if got := <-done; got.status != 200 {
			t.Errorf("got %d", got.status)
		}
	}
	if got := <-other; got != 200 {
		t.Errorf("another token: got %d", got)
	}

	if !f.api.memory.take("submit", maxMemory/2) {
		t.Fatal("no memory")
	}
	large := `{"code":"` + strings.Repeat("#", 2*smallBytes) + `"}`
	if got := f.post("/traces", large); got.status != 503 || got.header.Get("Retry-After") == "" || got.problem(t).Type != ProblemType+"busy" {
		t.Errorf("a large body: got %d %s", got.status, got.body)
	}
	if got := f.post("/traces", `{"code":"1"}`); got.status != 202 {
		t.Errorf("a small body: got %d %s", got.status, got.body)
	}
	f.token = names["operate"]
	if got := f.post("/traces", large); got.status != 202 {
		t.Errorf("another token: got %d %s", got.status, got.body)
	}
	f.api.memory.give("submit", maxMemory/2)
	if got := f.api.memory.taken(); got != 0 {
		t.Errorf("%d bytes are not given back", got)
	}
}

// TestWrongTokensAreSlowedDown sends wrong tokens, in each way that there is, until they are refused; right ones go on working.
func TestWrongTokensAreSlowedDown(t *testing.T) {
	t.Parallel()
	tries := map[string]func(f *fixture) answer{
		"header": func(f *fixture) answer { return f.get("/limits", "Authorization", "Bearer tf_wrong") },
		"cookie": func(f *fixture) answer { return f.get("/limits", "Cookie", "tracefleet_session=wrong") },
		"form": func(f *fixture) answer {
			return f.request("POST", "/login", url.Values{"token": {"tf_wrong"}}.Encode(), "Content-Type", "application/x-www-form-urlencoded")
		},
		"monitoring": func(f *fixture) answer {
			return f.request("GET", monitor.Path+"/api/queues", "", "Authorization", "Bearer tf_wrong")
		},
	}
	for name, try := range tries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, names := guarded(t, nil)
			eventually(t, "refused", func() (bool, any) {
				got := try(f)
				return got.status == 429 && got.header.Get("Retry-After") != "", got
			})
			if got := f.get("/limits", "Authorization", "Bearer "+names["read"]); got.status != 200 {
				t.Errorf("a right token: got %d", got.status)
			}
			form := url.Values{"token": {names["read"]}}.Encode()
			if got := f.request("POST", "/login", form, "Content-Type", "application/x-www-form-urlencoded"); got.status != 303 {
				t.Errorf("signing in: got %d", got.status)
			}
		})
	}
}

func TestRemoteNetwork(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"192.0.2.1:99": "192.0.2.1", "[::ffff:192.0.2.1]:99": "192.0.2.1", "[2001:db8::1]:99": "2001:db8::/64", "[2001:db8::2:1]:7": "2001:db8::/64",
		"[fe80::1%eth0]:1": "fe80::/64", "@": "@",
	} {
		if got := remoteNetwork(&http.Request{RemoteAddr: addr}); got != want {
			t.Errorf("%s: got %s, want %s", addr, got, want)
		}
	}
}

// TestQueryIsReadWhole checks that no part of a query is passed over because it cannot be read.
func TestQueryIsReadWhole(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	f.submit(`{"code":"1","id":"a"}`)
	for _, query := range []string{"wait=1;format=json", "wait=%zz", "%", "a;b"} {
		if got := f.get("/traces/a?" + query); got.status != 422 || got.problem(t).Type != ProblemType+"invalid" {
			t.Errorf("%q: got %d %s, want 422", query, got.status, got.body)
		}
	}
}

func TestTagged(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{
		"": false, `W/"a"`: true, `"a"`: true, "*": true, `"b", W/"a"`: true, `"b","c"`: false, `W/"ab"`: false, "a": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("If-None-Match", header)
		if got := tagged(r, `W/"a"`); got != want {
			t.Errorf("%s: got %t", header, got)
		}
	}
}
