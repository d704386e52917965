package api

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/intake"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/ops"
)

func TestProblems(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	tests := map[string]struct {
		method, path, body string
		headers            []string
		status             int
		kind, location     string
	}{
		"no such path":        {"GET", "/nothing", "", nil, 404, "no-such-path", ""},
		"no such trace":       {"GET", "/traces/nobody", "", nil, 404, "not-found", ""},
		"no id":               {"GET", "/traces/%00%22", "", nil, 404, "not-found", ""},
		"method":              {"PUT", "/traces", "", nil, 405, "method", ""},
		"not JSON":            {"POST", "/traces", `{"code":`, nil, 400, "malformed", "body"},
		"not UTF-8":           {"POST", "/traces", "{\"code\":\"\xff\"}", nil, 400, "malformed", "body"},
		"two documents":       {"POST", "/traces", `{"code":"1"} {}`, nil, 400, "malformed", "body"},
		"unknown field":       {"POST", "/traces", `{"code":"1","kode":"2"}`, nil, 422, "invalid", "body.kode"},
		"field in capitals":   {"POST", "/traces", `{"Code":"1"}`, nil, 422, "invalid", "body.Code"},
		"key twice":           {"POST", "/traces", `{"code":"1","code":"2"}`, nil, 422, "invalid", "body.code"},
		"limit":               {"POST", "/traces", `{"code":"1","limits":{"wall_ms":1}}`, nil, 422, "invalid", "body.limits.wall_ms"},
		"limit of a fraction": {"POST", "/traces", `{"code":"1","limits":{"wall_ms":100.5}}`, nil, 422, "invalid", "body.limits.wall_ms"},
		"path out of the job": {"POST", "/traces", `{"files":{"main.py":"","../x":""}}`, nil, 422, "invalid", `body.files["../x"]`},
		"half a surrogate":    {"POST", "/traces", `{"code":"\ud800"}`, nil, 422, "invalid", "body.code"},
		"null":                {"POST", "/traces", `{"code":null}`, nil, 422, "invalid", "body.code"},
		"callback, off":       {"POST", "/traces", `{"code":"1","callback_url":"https://x.example"}`, nil, 422, "invalid", "body.callback_url"},
		"no media type":       {"POST", "/traces", `{"code":"1"}`, []string{"Content-Type", ""}, 415, "media-type", ""},
		"a form":              {"POST", "/traces", `{"code":"1"}`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "media-type", ""},
		"a compressed body":   {"POST", "/traces", `{"code":"1"}`, []string{"Content-Encoding", "gzip"}, 415, "media-type", ""},
		"wait":                {"GET", "/traces/x?wait=soon", "", nil, 422, "invalid", "query.wait"},
		"negative wait":       {"GET", "/traces/x?wait=-1", "", nil, 422, "invalid", "query.wait"},
		"wait of NaN":         {"GET", "/traces/x?wait=NaN", "", nil, 422, "invalid", "query.wait"},
		"unknown parameter":   {"GET", "/traces/x?wiat=1", "", nil, 422, "invalid", "query.wiat"},
		"parameter twice":     {"GET", "/traces/x?wait=1&wait=2", "", nil, 422, "invalid", "query.wait"},
		"format":              {"GET", "/traces/x?format=xml", "", nil, 422, "invalid", "query.format"},
		"too large":           {"POST", "/traces", `{"code":"` + strings.Repeat("x", job.MaxDocumentBytes) + `"}`, nil, 413, "too-large", ""},
		"time":                {"GET", "/dead-letters?since=yesterday", "", nil, 422, "invalid", "query.since"},
		"number":              {"GET", "/dead-letters?limit=0", "", nil, 422, "invalid", "query.limit"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := f.request(tt.method, Prefix+tt.path, tt.body, tt.headers...)
			p := got.problem(t)
			if got.status != tt.status || p.Type != ProblemType+tt.kind || p.RequestID != got.header.Get("X-Request-Id") || p.RequestID == "" {
				t.Errorf("got %d %+v, want %d %s", got.status, p, tt.status, tt.kind)
			}
			if tt.location != "" && (len(p.Errors) == 0 || p.Errors[0].Location != tt.location) {
				t.Errorf("got errors %+v, want one at %s", p.Errors, tt.location)
			}
			if tt.method == "PUT" && got.header.Get("Allow") != "POST" {
				t.Errorf("got Allow %q, want POST", got.header.Get("Allow"))
			}
		})
	}
}

// TestNoEcho checks that a refusal never quotes the program.
func TestNoEcho(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	for _, body := range []string{
		`{"code":["hunter2"]}`, `{"code":"hunter2","unknown":"hunter2"}`, `{"files":{"a.py":"hunter2"},"code":"hunter2"}`,
		`{"code":"1","stdin":{"hunter2":1}}`, `{"code":"1","args":["hunter2\u0000"]}`, `"hunter2"`, `{"code":"hunter2"`,
	} {
		if got := f.post("/traces", body); got.status < 400 || strings.Contains(got.body, "hunter2") {
			t.Errorf("%s: got %d %s", body, got.status, got.body)
		}
	}
}

func TestQueueFull(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	book, err := ledger.New(f.rdb, ledger.Config{Admission: ledger.Admission{MaxQueueJobs: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = book.Close() }()
	desk, err := intake.New(book, nilQueue{}, intake.Config{})
	if err != nil {
		t.Fatal(err)
	}
	f.api.cfg.Desk = desk
	f.submit(`{"code":"1"}`)
	got := f.post("/traces", `{"code":"2"}`)
	if p := got.problem(t); got.status != 429 || p.Type != ProblemType+"queue-full" || !p.Retryable || got.header.Get("Retry-After") == "" {
		t.Errorf("got %d %+v, Retry-After %q", got.status, p, got.header.Get("Retry-After"))
	}
}

func TestRedisAway(t *testing.T) {
	t.Parallel()
	checks := &ops.Checks{}
	f := setup(t, func(c *Config) { c.Checks = checks })
	if err := checks.Add("redis", patience, f.ping); err != nil {
		t.Fatal(err)
	}
	if got := f.request("GET", "/readyz", ""); got.status != 200 {
		t.Errorf("readyz: got %d", got.status)
	}
	f.redis.Kill()
	for _, got := range []answer{f.post("/traces", `{"code":"1"}`), f.get("/traces/x"), f.get("/dead-letters"), f.get("/batches/x")} {
		p := got.problem(t)
		if got.status != 503 || got.header.Get("Retry-After") != "1" || !p.Retryable || strings.Contains(got.body, f.redis.Addr()) {
			t.Errorf("got %d %s, want 503 that says nothing of Redis' address", got.status, got.body)
		}
	}
	if got := f.request("GET", "/readyz", ""); got.status != 503 || strings.Contains(got.body, "127.0.0.1") {
		t.Errorf("readyz: got %d %s", got.status, got.body)
	}
	if got := f.request("GET", "/healthz", ""); got.status != 200 {
		t.Errorf("healthz: got %d", got.status)
	}
	f.redis.Restart()
	eventually(t, "Redis is back", func() (bool, any) { got := f.post("/traces", `{"code":"1"}`); return got.status == 202, got.status })
}

// Whoever waits while Redis goes away does not take what was known before for the state of the job. A submission stands.
func TestRedisGoesAwayDuringAWait(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	f.submit(`{"code":"1","id":"a"}`)
	got, posted := make(chan answer, 1), make(chan answer, 1)
	go func() { got <- f.get("/traces/a?wait=2s") }()
	go func() { posted <- f.post("/traces?wait=2s", `{"code":"2","id":"b"}`) }()
	eventually(t, "two wait", func() (bool, any) { n := f.api.waiters.taken(); return n == 2, n })
	f.redis.Kill()
	if a := <-got; a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("get: %d %s, want 503", a.status, a.body)
	}
	if a := <-posted; a.status != 202 || !strings.Contains(a.body, `"id":"b"`) {
		t.Errorf("post: %d %s, want 202 with the job", a.status, a.body)
	}
	f.redis.Restart()
	eventually(t, "Redis is back", func() (bool, any) { got := f.post("/traces", `{"code":"1"}`); return got.status == 202, got.status })
}

// A server promises what the workers take, and refuses what they would reject.
func TestLoweredMaxima(t *testing.T) {
	t.Parallel()
	maxima := job.MaxLimits()
	f := setup(t, func(c *Config) { c.Maxima = func() job.Limits { return maxima } })
	maxima.WallMS = 5_000
	var limits LimitsDocument
	f.get("/limits").json(t, &limits)
	if limits.Maximum != maxima || limits.Default.WallMS != 5_000 || limits.Default.CPUMS != job.DefaultLimits().CPUMS {
		t.Errorf("got %+v, want the lowered maxima, and defaults within them", limits)
	}
	if got := f.post("/traces", `{"code":"","limits":{"wall_ms":5001}}`); got.status != 422 || !strings.Contains(got.body, "body.limits.wall_ms") {
		t.Errorf("over them: got %d %s", got.status, got.body)
	}
	if got := f.post("/traces", `{"code":"","id":"a"}`); got.status != 202 {
		t.Errorf("without limits: got %d %s", got.status, got.body)
	}
}

func TestPanicIsAnswered(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	f.api.cfg.Book = nil
	f.submit(`{"code":"1","id":"a"}`)
	if got := f.get("/traces/a/input"); got.status != 500 || got.problem(t).Type != ProblemType+"internal" || strings.Contains(got.body, "nil") {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// TestBrokenRequests sends what no HTTP library would.
func TestBrokenRequests(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	head := "POST /api/v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for name, tt := range map[string]struct {
		text string
		want int
	}{
		"two lengths":     {head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400},
		"length and more": {head + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n", 0},
		"huge header":     {"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n", 431},
		"no host":         {"GET /api/v1/limits HTTP/1.1\r\n\r\n", 400},
		"bad path":        {"GET /api/v1/traces/%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", strings.TrimPrefix(f.base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(patience))
			if _, err := fmt.Fprint(c, tt.text); err != nil {
				t.Fatal(err)
			}
			got, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = got.Body.Close()
			if tt.want != 0 && got.StatusCode != tt.want || got.StatusCode < 400 || got.StatusCode >= 500 {
				t.Errorf("got %d, want %d", got.StatusCode, tt.want)
			}
		})
	}
}

// TestProblemHeaders: a problem says nothing of the answer that has not come about, whatever the operation had said before it failed.
func TestProblemHeaders(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	f.submit(`{"code":"1","id":"queued"}`)
	f.submit(`{"code":"1","id":"damaged"}`)
	f.finish("damaged")
	if err := f.rdb.Set(t.Context(), "tf:{damaged}:result", "junk", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path   string
		status int
	}{
		"no result yet":    {"/traces/queued?format=chrome", 409},
		"a damaged result": {"/traces/damaged?format=execra", 500},
	} {
		got := f.get(c.path, "Prefer", "wait=0")
		if got.status != c.status {
			t.Errorf("%s: got %d %s, want %d", name, got.status, got.body, c.status)
		}
		for _, header := range []string{"Location", "ETag", "Idempotent-Replayed", "Preference-Applied"} {
			if value := got.header.Get(header); value != "" {
				t.Errorf("%s: got %s: %s", name, header, value)
			}
		}
	}
}
