package api

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/execra/tracefleet/internal/api/access"
	"github.com/execra/tracefleet/internal/deadletter"
	"github.com/execra/tracefleet/internal/intake"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/redistest"
	"github.com/execra/tracefleet/internal/session"
	"github.com/execra/tracefleet/internal/trace"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a replica of the API over a real Redis, and a stand-in for the workers.
type fixture struct {
	t      testing.TB
	redis  *redistest.Server
	rdb    redis.UniversalClient
	ledger *ledger.Ledger
	api    *API
	base   string
	client *http.Client
	token  string
	stop   func() error
}

// start starts a replica over a server. change may alter its configuration.
func start(t testing.TB, server *redistest.Server, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, redis: server, rdb: server.Client()}
	var err error
	if f.ledger, err = ledger.New(f.rdb, ledger.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.ledger.Close() })
	producer, err := queue.NewProducer(f.rdb, queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	desk, err := intake.New(f.ledger, producer, intake.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Guard: access.NewGuard(nil, nil), Desk: desk, Book: f.ledger, Dead: f.ledger, Office: deadletter.New(f.ledger, producer), Batches: f.ledger,
		RatePerSecond: 1e6, Burst: 1e6,
	}
	if change != nil {
		change(&cfg)
	}
	if f.api, err = New(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	s, err := f.api.Listen(t.Context(), "127.0.0.1:0", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.base = "http://" + s.Addr()
	f.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 300}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	f.stop = f.runServer(s)
	return f
}

// runServer runs a server until the test is over, or stop is called.
func (f *fixture) runServer(s *Server) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		f.client.CloseIdleConnections()
		return <-done
	})
	f.t.Cleanup(func() {
		if err := stop(); err != nil {
			f.t.Errorf("stop: %v", err)
		}
	})
	return stop
}

func setup(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	return start(t, redistest.Start(t, redistest.Options{}), change)
}

// tokens makes a guard with one token of each role, and one for each tenant; it returns the tokens by name.
func tokens(t testing.TB, f func() redis.UniversalClient) (*access.Guard, map[string]string) {
	t.Helper()
	all := map[string]string{}
	var file strings.Builder
	for _, want := range []struct {
		name   string
		role   access.Role
		tenant string
	}{
		{"read", access.RoleRead, ""}, {"submit", access.RoleSubmit, ""}, {"operate", access.RoleOperate, ""},
		{"ada", access.RoleSubmit, "ada"}, {"bob", access.RoleOperate, "bob"},
	} {
		token, line, err := access.NewToken(want.name, want.role, want.tenant)
		if err != nil {
			t.Fatal(err)
		}
		all[want.name] = token
		file.WriteString(line + "\n")
	}
	parsed, err := access.ParseTokens(strings.NewReader(file.String()))
	if err != nil {
		t.Fatal(err)
	}
	return access.NewGuard(parsed, session.New(f())), all
}

// answer is what a request got.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) json(t testing.TB, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), to); err != nil {
		t.Fatalf("answer %d is not JSON: %v\n%.300s", a.status, err, a.body)
	}
}

func (a answer) problem(t *testing.T) Problem {
	t.Helper()
	var p Problem
	a.json(t, &p)
	if a.header.Get("Content-Type") != "application/problem+json" || p.Status != a.status || !strings.HasPrefix(p.Type, ProblemType) || p.Title == "" || p.Detail == "" {
		t.Errorf("got %d %s %+v, want a problem document", a.status, a.header.Get("Content-Type"), p)
	}
	return p
}

// request sends one request. Headers come in pairs.
func (f *fixture) request(method, path, body string, headers ...string) answer {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.base+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if f.token != "" {
		r.Header.Set("Authorization", "Bearer "+f.token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	got, err := f.client.Do(r)
	if err != nil {
		f.t.Errorf("%s %s: %v", method, path, err)
		return answer{header: http.Header{}}
	}
	defer func() { _ = got.Body.Close() }()
	data, err := io.ReadAll(got.Body)
	if err != nil {
		f.t.Errorf("%s %s: %v", method, path, err)
	}
	return answer{status: got.StatusCode, header: got.Header, body: string(data)}
}

func (f *fixture) get(path string, headers ...string) answer {
	f.t.Helper()
	return f.request(http.MethodGet, Prefix+path, "", headers...)
}

func (f *fixture) post(path, body string, headers ...string) answer {
	f.t.Helper()
	return f.request(http.MethodPost, Prefix+path, body, headers...)
}

// submit submits a job and returns its id.
func (f *fixture) submit(document string) string {
	f.t.Helper()
	got := f.post("/traces", document)
	if got.status != http.StatusAccepted {
		f.t.Fatalf("submit: got %d %s", got.status, got.body)
	}
	var doc TraceDocument
	got.json(f.t, &doc)
	return doc.ID
}

// finish ends a job as a worker would.
func (f *fixture) finish(id string) {
	f.t.Helper()
	claim, err := f.ledger.Claim(context.Background(), id, "w1")
	if err != nil {
		f.t.Errorf("claim %s: %v", id, err)
		return
	}
	if err := f.ledger.Finish(context.Background(), id, claim.Fence, resultOf(id)); err != nil {
		f.t.Errorf("finish %s: %v", id, err)
	}
}

// bury puts a job into the dead letters.
func (f *fixture) bury(id string) {
	f.t.Helper()
	claim, err := f.ledger.Claim(context.Background(), id, "w1")
	if err != nil {
		f.t.Fatal(err)
	}
	r := resultOf(id)
	r.Status = job.StatusSystemError
	if err := f.ledger.Bury(context.Background(), id, claim.Fence, "engine", "the engine is away", r); err != nil {
		f.t.Fatal(err)
	}
}

func resultOf(id string) job.Result {
	one := 1
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return job.Result{
		Schema: job.ResultSchema, ID: id, Status: job.StatusException, Headline: "ZeroDivisionError: division by zero (main.py:1 in <module>)", Returncode: &one,
		Stdout: "hi\n", StdoutBytes: 3, Encoding: job.EncodingUTF8, Limits: job.DefaultLimits(),
		Exception: &trace.Exception{Type: "ZeroDivisionError", Message: "division by zero", File: "main.py", Line: 1, Function: "<module>"},
		Summary: &trace.Summary{TotalCalls: 1, TotalLines: 1, MaxRecursionDepth: 1, ExecutionPath: []string{"<module>"},
			Lines: map[string]map[string]int64{"main.py": {"1": 1}}, CountsExact: true},
		Trace: &trace.Trace{Schema: trace.Schema, Files: []trace.File{{ID: 1, Path: "main.py", Lines: 1}},
			Functions: []trace.Function{{ID: 1, Name: "<module>", File: 1, Line: 1, Kind: "module"}},
			Events: []trace.Event{
				{Seq: 1, Kind: trace.KindCall, Func: 1, Frame: 1, Line: 1, Depth: 1, Thread: 1},
				{Seq: 2, Kind: trace.KindLine, Func: 1, Frame: 1, Line: 1, Depth: 1, Thread: 1, Vars: trace.Vars{{Name: "x", Value: trace.Value(`["REF",1]`)}},
					Heap: trace.Heap{{Ref: 1, Value: trace.Value(`["LIST",1]`)}}},
				{Seq: 3, Kind: trace.KindException, Func: 1, Frame: 1, Line: 1, Depth: 1, Thread: 1, Exception: &trace.EventException{Type: "ZeroDivisionError", Message: "division by zero"}},
				{Seq: 4, Kind: trace.KindUnwind, Func: 1, Frame: 1, Line: 1, Depth: 1, Thread: 1},
			}},
		Tracer: job.TracerReport{Trust: job.TrustInProcess, Complete: true}, Worker: "w1", Attempt: 1,
		EnqueuedAt: at, StartedAt: &at, FinishedAt: at, Usage: job.Usage{WallMS: 5, CPUMS: 4},
	}
}

// patience bounds what must happen in the end, also on a machine that is busy with other things.
const patience = 90 * time.Second

// eventually polls until ok, and fails with what was seen last.
func eventually(t *testing.T, what string, ok func() (bool, any)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		good, last := ok()
		if good {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %s; last: %v", what, patience, last)
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the test is over")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ping asks Redis whether it is there.
func (f *fixture) ping(ctx context.Context) error { return f.rdb.Ping(ctx).Err() }

// nilQueue takes every task and forgets it.
type nilQueue struct{}

func (nilQueue) Enqueue(context.Context, queue.Envelope, job.Queue) error { return nil }
func (nilQueue) Remove(context.Context, queue.Envelope, job.Queue) error  { return nil }
