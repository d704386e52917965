package viewer

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/execra/tracefleet/internal/job"
)

// patience bounds one test in the browser, and its start.
const patience = 5 * time.Minute

// fixture is a result of a real run with the sources of its job.
type fixture struct {
	Files  map[string]string
	Result json.RawMessage
}

func (f fixture) result(t testing.TB) job.Result {
	t.Helper()
	var r job.Result
	if err := json.Unmarshal(f.Result, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// fixtureData gives a fixture's document: one of ours, or one of the text view's.
func fixtureData(name string) ([]byte, error) {
	for _, folder := range []string{"testdata", "../../render/testdata"} {
		if data, err := os.ReadFile(filepath.Join(folder, name+".json")); err == nil {
			return data, nil
		}
	}
	file, err := os.Open(filepath.Join("testdata", name+".json.gz"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	r, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func readFixture(t testing.TB, name string) fixture {
	t.Helper()
	data, err := fixtureData(name)
	if err != nil {
		t.Fatal(err)
	}
	var f fixture
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// server is the viewer with an API behind it that knows the fixtures.
type server struct {
	*httptest.Server
	mu        sync.Mutex
	submitted []map[string]any
	// states are what a submitted job passes through, one a request, before its result is there.
	states []string
	paths  []string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{states: []string{"queued", "running"}}
	mux := http.NewServeMux()
	mux.Handle("/", handler(t))
	mux.HandleFunc("POST /api/v1/traces", s.submit)
	mux.HandleFunc("GET /api/v1/limits", func(w http.ResponseWriter, _ *http.Request) {
		send(w, 200, map[string]any{"minimum": job.MinLimits(), "default": job.DefaultLimits(), "maximum": job.MaxLimits()})
	})
	mux.HandleFunc("GET /api/v1/traces/{id}", s.trace)
	mux.HandleFunc("GET /api/v1/traces/{id}/input", func(w http.ResponseWriter, r *http.Request) {
		var f fixture
		if data, err := fixtureData(r.PathValue("id")); err != nil || json.Unmarshal(data, &f) != nil {
			send(w, 404, map[string]any{"title": "Not found"})
			return
		}
		entrypoints := slices.Sorted(maps.Keys(f.Files))
		limits := job.DefaultLimits()
		limits.WallMS = 2500
		send(w, 200, job.Job{Entrypoint: entrypoints[0], Files: f.Files, Args: []string{}, Limits: limits})
	})
	mux.HandleFunc("GET /api/v1/traces/{id}/events", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /fixtures/{name}", func(w http.ResponseWriter, r *http.Request) {
		data, err := fixtureData(strings.TrimSuffix(r.PathValue("name"), ".json"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(data)
	})
	mux.HandleFunc("GET /unit", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, `<!doctype html><link rel="icon" href="data:,"><script src="/unit.js"></script>`)
	})
	mux.HandleFunc("GET /unit.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "testdata/unit.js") })
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.paths = append(s.paths, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func send(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document)
}

func (s *server) submit(w http.ResponseWriter, r *http.Request) {
	var document map[string]any
	if err := json.NewDecoder(r.Body).Decode(&document); err != nil {
		send(w, 400, map[string]any{"title": "Not JSON"})
		return
	}
	s.mu.Lock()
	s.submitted = append(s.submitted, document)
	s.mu.Unlock()
	if limits, _ := document["limits"].(map[string]any); limits["wall_ms"] == float64(0) {
		send(w, 422, map[string]any{
			"title": "Invalid job", "detail": "The job is not valid.",
			"errors": []map[string]string{{"location": "body.limits.wall_ms", "message": "must be at least 100"}},
		})
		return
	}
	send(w, 202, map[string]any{"id": "two_files", "state": "queued"})
}

func (s *server) trace(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	data, err := fixtureData(id)
	var f fixture
	if err != nil || json.Unmarshal(data, &f) != nil {
		send(w, 404, map[string]any{"title": "Not found"})
		return
	}
	s.mu.Lock()
	state := "finished"
	if len(s.submitted) > 0 && len(s.states) > 0 {
		state, s.states = s.states[0], s.states[1:]
	}
	s.mu.Unlock()
	if state != "finished" {
		send(w, 200, map[string]any{"id": id, "state": state})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"id":%q,"state":"finished","result":%s}`, id, f.Result)
}

// tab is a page in a real browser. What its console says, and every request it makes, is kept.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex
	problems []string
	requests []string
}

// newTab opens a tab of a browser of its own, of the given size.
func newTab(t *testing.T, base string, width, height int) *tab {
	t.Helper()
	program := os.Getenv("TRACEFLEET_CHROMIUM")
	if program == "" {
		program = "chromium"
	}
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("there is no %s, which the viewer is tested in; run make setup", program)
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(width, height), chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("force-device-scale-factor", "1"),
		// Names are resolved to nowhere: a request to another host would fail, and be seen.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"),
	)
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, base: base}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(int64(width), int64(height))); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	var expire context.CancelFunc
	p.ctx, expire = context.WithTimeout(ctx, patience)
	t.Cleanup(expire)
	if err := chromedp.Listen(ctx, p.heard); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *tab) heard(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		for _, arg := range e.Args {
			p.problems = append(p.problems, fmt.Sprintf("console: %s %s", arg.Value, arg.Description))
		}
	case *runtime.EventExceptionThrown:
		p.problems = append(p.problems, fmt.Sprintf("exception: %s %v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	}
}

// open goes to an address and waits until the page has drawn itself.
func (p *tab) open(path string) {
	p.t.Helper()
	if !strings.Contains(path, "://") {
		path = p.base + path
	}
	if err := chromedp.Do(p.ctx, chromedp.Navigate(path)); err != nil {
		p.t.Fatalf("open %s: %v", path, err)
	}
	p.until(`document.querySelector("#app")?.childElementCount > 0`)
}

// eval gives the value of an expression in the page.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// until waits for an expression to become true.
func (p *tab) until(expression string) {
	p.t.Helper()
	ok := eval[bool](p, fmt.Sprintf(`new Promise((done) => {
		const end = Date.now() + 60000;
		const look = () => { if (%s) done(true); else if (Date.now() > end) done(false); else setTimeout(look, 20); };
		look();
	})`, expression))
	if !ok {
		p.t.Fatalf("waited in vain for %s; the page says: %s", expression, eval[string](p, `document.body.innerText.slice(0, 2000)`))
	}
}

func (p *tab) press(keys string, options ...chromedp.KeyOption) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, chromedp.KeyEvent(keys, options...)); err != nil {
		p.t.Fatalf("press %q: %v", keys, err)
	}
}

func (p *tab) click(selector string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.querySelector(%q)`, selector))
	if err := chromedp.Do(p.ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		p.t.Fatalf("click %s: %v", selector, err)
	}
}

// step is the number of the current step, from 1.
func (p *tab) step() int {
	p.t.Helper()
	return eval[int](p, `Number(document.querySelector(".track input").value)`)
}

// clean fails when the page complained, or asked anything of anybody but its server.
func (p *tab) clean() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, problem := range p.problems {
		p.t.Error(problem)
	}
	for _, address := range p.requests {
		if !strings.HasPrefix(address, p.base) && !strings.HasPrefix(address, "data:") && !strings.HasPrefix(address, "file:") {
			p.t.Errorf("the page asked for %s", address)
		}
	}
}
