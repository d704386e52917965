package api

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/execra/tracefleet/internal/api/access"
	"github.com/execra/tracefleet/internal/api/monitor"
	"github.com/execra/tracefleet/internal/api/viewer"
	"github.com/execra/tracefleet/internal/redistest"
)

// guarded starts an API with tokens, asynqmon and stand-ins for the pages.
func guarded(t *testing.T, change func(*Config)) (*fixture, map[string]string) {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	guard, names := tokens(t, server.Client)
	asynqmon, err := monitor.New(server.Client())
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, server, func(c *Config) {
		c.Guard, c.Monitor = guard, asynqmon
		c.Pages = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("page")) })
		if change != nil {
			change(c)
		}
	})
	return f, names
}

// TestRoles tries every operation of the table with every role: those below its own are
// refused, the others get past the check.
func TestRoles(t *testing.T) {
	t.Parallel()
	f, names := guarded(t, nil)
	for _, o := range operations() {
		path := Prefix + strings.ReplaceAll(o.path, "{id}", "nobody")
		for name, role := range map[string]access.Role{"": access.RoleNone, "read": access.RoleRead, "submit": access.RoleSubmit, "operate": access.RoleOperate} {
			f.token = names[name]
			got := f.request(o.method, path, "")
			switch {
			case name == "" && (got.status != 401 || got.header.Get("WWW-Authenticate") == ""):
				t.Errorf("%s without a token: got %d, want 401", o.id, got.status)
			case name != "" && role < o.role && got.status != 403:
				t.Errorf("%s with %s: got %d, want 403", o.id, name, got.status)
			case role >= o.role && (got.status == 401 || got.status == 403 || got.status >= 500):
				t.Errorf("%s with %s: got %d %s, want it let in", o.id, name, got.status, got.body)
			}
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	f, names := guarded(t, nil)
	good := names["read"]
	for header, want := range map[string]int{
		"Bearer " + good: 200, "bearer " + good: 200, "Bearer " + good + "x": 401, "Bearer ": 401, "Bearer": 401, "Basic " + good: 401, good: 401,
		"Bearer " + strings.Repeat("x", 10_000): 401, "Bearer tf_": 401,
	} {
		got := f.request(http.MethodGet, Prefix+"/limits", "", "Authorization", header)
		if got.status != want || strings.Contains(got.body, good) {
			t.Errorf("%.40q: got %d, want %d", header, got.status, want)
		}
	}
}

// TestTenants checks that what belongs to another tenant looks like what is not there.
func TestTenants(t *testing.T) {
	t.Parallel()
	f, names := guarded(t, nil)
	f.token = names["ada"]
	id := f.submit(`{"code":"1","id":"of-ada"}`)
	f.post("/batches?name=batch-of-ada", `{"code":"2"}`, "Content-Type", mediaNDJSON)
	if got := f.post("/traces", `{"code":"1","tenant":"bob"}`); got.status != 422 || got.problem(t).Errors[0].Location != "body.tenant" {
		t.Errorf("for another tenant: got %d %s", got.status, got.body)
	}
	if got := f.post("/traces", `{"code":"1","tenant":"ada"}`); got.status != 202 {
		t.Errorf("for the own tenant: got %d", got.status)
	}
	f.bury(id)
	foreign := []struct{ method, path, body string }{
		{"GET", "/traces/of-ada", ""}, {"GET", "/traces/of-ada?wait=1", ""}, {"GET", "/traces/of-ada?format=chrome", ""}, {"GET", "/traces/of-ada/input", ""},
		{"GET", "/traces/of-ada/events", ""}, {"DELETE", "/traces/of-ada", ""}, {"GET", "/traces/of-ada/webhook", ""}, {"POST", "/traces/of-ada/webhook", ""},
		{"GET", "/batches/batch-of-ada", ""}, {"GET", "/dead-letters/of-ada", ""},
	}
	f.token = names["bob"]
	for _, r := range foreign {
		mine, nobody := f.request(r.method, Prefix+r.path, r.body), f.request(r.method, Prefix+strings.ReplaceAll(r.path, "of-ada", "nobody"), r.body)
		if mine.status != 404 || nobody.status != 404 || mine.problem(t).Detail != nobody.problem(t).Detail {
			t.Errorf("%s %s: got %d, of nobody %d, want the same 404", r.method, r.path, mine.status, nobody.status)
		}
	}
	if got := f.post("/dead-letters/requeue", `{"ids":["of-ada"]}`); !strings.Contains(got.body, `"not_found"`) {
		t.Errorf("requeue: got %s", got.body)
	}
	for path, want := range map[string]string{"/dead-letters": `{"items":[]}`, "/dead-letters?tenant=ada": "query.tenant"} {
		if got := f.get(path); !strings.Contains(got.body, want) {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
	}
	// The id is taken, but nothing is told of whose it is; the input would be the same but for the tenant.
	if got := f.post("/traces", `{"code":"1","id":"of-ada"}`); got.status != 422 || strings.Contains(got.body, "ada\"") && !strings.Contains(got.body, "id-reused") {
		t.Errorf("the same id: got %d %s", got.status, got.body)
	}
	for name, want := range map[string]int{"ada": 200, "read": 200, "operate": 200} {
		f.token = names[name]
		if got := f.get("/traces/of-ada"); got.status != want {
			t.Errorf("%s: got %d, want %d", name, got.status, want)
		}
	}
}

// TestOpenServer checks what guards a server without tokens from web pages.
func TestOpenServer(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	const body = `{"code":"1"}`
	tests := map[string]struct {
		headers []string
		want    int
	}{
		"a script":                     {nil, 202},
		"our own page":                 {[]string{"Origin", f.base, "Sec-Fetch-Site", "same-origin"}, 202},
		"another site":                 {[]string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, 403},
		"another site, an old browser": {[]string{"Origin", "https://evil.example"}, 403},
		"a name that leads here":       {[]string{"Host", "evil.example:8080"}, 403},
		"localhost":                    {[]string{"Host", "localhost:8080"}, 202},
		"IPv6 loopback":                {[]string{"Host", "[::1]:8080"}, 202},
	}
	for name, tt := range tests {
		if got := f.post("/traces", body, tt.headers...); got.status != tt.want {
			t.Errorf("%s: got %d %s, want %d", name, got.status, got.body, tt.want)
		}
	}
	if got := f.get("/limits", "Host", "evil.example"); got.status != 403 {
		t.Errorf("reading by another name: got %d", got.status)
	}
	got := f.request(http.MethodOptions, Prefix+"/traces", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
	if got.status != 405 || got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("preflight: got %d %v, want no CORS", got.status, got.header)
	}
}

func TestSession(t *testing.T) {
	t.Parallel()
	f, names := guarded(t, nil)
	form := func(token, next string) string { return url.Values{"token": {token}, "next": {next}}.Encode() }
	const formType = "application/x-www-form-urlencoded"
	if got := f.request("GET", "/traces/x?y=1", ""); got.status != 303 || got.header.Get("Location") != "/login?next=%2Ftraces%2Fx%3Fy%3D1" {
		t.Errorf("a page without a session: got %d %v", got.status, got.header)
	}
	if got := f.request("GET", "/login?next=/traces/x", ""); got.status != 200 || !strings.Contains(got.body, `value="/traces/x"`) || !strings.Contains(got.header.Get("Content-Security-Policy"), "style-src 'sha256-") {
		t.Errorf("form: got %d %s", got.status, got.body)
	}
	if got := f.request("POST", "/login", form("tf_wrong", "/"), "Content-Type", formType); got.status != 401 || got.header.Get("Set-Cookie") != "" || strings.Contains(got.body, "tf_wrong") {
		t.Errorf("a wrong token: got %d %v", got.status, got.header)
	}
	if got := f.request("POST", "/login", form(names["ada"], "/"), "Content-Type", formType, "Origin", "https://evil.example"); got.status != 403 {
		t.Errorf("from another site: got %d", got.status)
	}
	got := f.request("POST", "/login", form(names["ada"], "/traces/x"), "Content-Type", formType, "Sec-Fetch-Site", "same-origin")
	cookie := got.header.Get("Set-Cookie")
	if got.status != 303 || got.header.Get("Location") != "/traces/x" {
		t.Fatalf("sign in: got %d %v", got.status, got.header)
	}
	for _, want := range []string{access.CookieName + "=", "HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("cookie %q lacks %s", cookie, want)
		}
	}
	cookie, _, _ = strings.Cut(cookie, ";")
	if got := f.request("GET", "/", "", "Cookie", cookie); got.status != 200 || got.body != "page" || got.header.Get("Content-Security-Policy") != viewer.Policy {
		t.Errorf("page: got %d %q", got.status, got.body)
	}
	if got := f.post("/traces", `{"code":"1"}`, "Cookie", cookie, "Sec-Fetch-Site", "same-origin"); got.status != 202 {
		t.Errorf("submit by session: got %d", got.status)
	}
	if got := f.post("/traces", `{"code":"1"}`, "Cookie", cookie, "Sec-Fetch-Site", "cross-site"); got.status != 403 {
		t.Errorf("submit by session from another site: got %d", got.status)
	}
	if got := f.request("GET", monitor.Path+"/", "", "Cookie", cookie); got.status != 403 {
		t.Errorf("queues for a tenant: got %d, want 403", got.status)
	}
	if got := f.request("POST", "/logout", "", "Cookie", cookie); got.status != 303 || !strings.Contains(got.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("sign out: got %d %v", got.status, got.header)
	}
	if got := f.request("GET", "/", "", "Cookie", cookie); got.status != 303 {
		t.Errorf("after it: got %d, want the form", got.status)
	}
	for _, next := range []string{"https://evil.example", "//evil.example", "/\\evil.example", "evil", "javascript:alert(1)", "/a\nb"} {
		if got := localPath(next); got != "/" {
			t.Errorf("next %q leads to %q", next, got)
		}
	}
}

func TestMonitor(t *testing.T) {
	t.Parallel()
	f, names := guarded(t, nil)
	f.token = names["submit"]
	id := f.submit(`{"code":"secret_source = 1","name":"shown"}`)
	name := queueOf(t, f, id)
	tasks := f.request("GET", monitor.Path+"/api/queues/"+name+"/pending_tasks", "")
	if !strings.Contains(tasks.body, "shown") || strings.Contains(tasks.body, "secret_source") {
		t.Errorf("tasks of %q: got %s", name, tasks.body)
	}
	path := monitor.Path + "/api/queues/" + name + "/pending_tasks/" + id
	for _, who := range []struct {
		name string
		want int
	}{{"read", 403}, {"submit", 403}, {"operate", 204}} {
		f.token = names[who.name]
		if got := f.request("DELETE", path, ""); got.status != who.want {
			t.Errorf("delete with %s: got %d %s, want %d", who.name, got.status, got.body, who.want)
		}
	}
	// However the path is written, a token that may only read changes nothing, and none gets nowhere else.
	f.token = names["submit"]
	more := f.submit(`{"code":"1"}`)
	f.token = names["read"]
	for _, path := range []string{
		"/api/queues/" + queueOf(t, f, more) + "/pending_tasks:delete_all", "/%61pi/queues/" + name + "/pending_tasks:delete_all", "/x/../api/queues/" + name + "/pending_tasks:delete_all",
		"//api/queues/" + name, "/api//queues/" + name, "/api/queues/" + name + "%3apause", "/api/queues/" + name + ":pause",
	} {
		for _, method := range []string{"POST", "DELETE", "PUT", "PATCH"} {
			if got := f.request(method, monitor.Path+path, ""); got.status != 403 {
				t.Errorf("%s %s with read: got %d %.200s, want 403", method, path, got.status, got.body)
			}
		}
	}
	if got := f.get("/traces/" + more); got.status != 200 || !strings.Contains(f.request("GET", monitor.Path+"/api/queues/"+queueOf(t, f, more)+"/pending_tasks", "").body, more) {
		t.Errorf("the task is gone: %d %s", got.status, got.body)
	}
	page := f.request("GET", monitor.Path+"/queues/"+name, "")
	if page.status != 200 || strings.Contains(page.body, "https://") || !strings.Contains(page.header.Get("Content-Security-Policy"), "script-src 'self' 'sha256-") {
		t.Errorf("page: got %d %.300s", page.status, page.body)
	}
	f.token = ""
	if got := f.request("GET", monitor.Path+"/api/queues", ""); got.status != 303 {
		t.Errorf("without a token: got %d, want the form", got.status)
	}
	if got := f.request("POST", monitor.Path+"/api/queues/"+name+":pause", ""); got.status != 401 {
		t.Errorf("without a token: got %d, want 401", got.status)
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	f, names := guarded(t, func(c *Config) { c.RatePerSecond, c.Burst = 0.5, 3 })
	f.token = names["read"]
	for i := range 4 {
		got := f.get("/limits")
		if want := map[bool]int{true: 200, false: 429}[i < 3]; got.status != want {
			t.Errorf("request %d: got %d, want %d", i, got.status, want)
		}
		if got.status == 429 {
			p := got.problem(t)
			if after := got.header.Get("Retry-After"); after != "2" || !p.Retryable || p.Type != ProblemType+"rate-limited" {
				t.Errorf("got Retry-After %q, %+v", after, p)
			}
		}
	}
	f.token = names["submit"]
	if got := f.get("/limits"); got.status != 200 {
		t.Errorf("another token: got %d", got.status)
	}
}
