package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/redistest"
	"github.com/execra/tracefleet/internal/roster"
	"github.com/execra/tracefleet/internal/trace"
)

// bench is a real Redis with a ledger, and a stand-in for the workers.
type bench struct {
	url    string
	ledger *ledger.Ledger
}

func newBench(t *testing.T) *bench {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	book, err := ledger.New(server.Client(), ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := book.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bench{url: server.URL(), ledger: book}
}

func (b *bench) command(ctx context.Context, stdin string, args ...string) outcome {
	return command(ctx, map[string]string{"REDIS_URL": b.url}, stdin, args...)
}

// submit submits one program and returns its id.
func (b *bench) submit(t *testing.T, args ...string) string {
	t.Helper()
	got := b.command(t.Context(), "print('hi')\n", append([]string{"submit", "-"}, args...)...)
	if got.code != cli.CodeDone || got.stderr != "" {
		t.Fatalf("submit: code %d, stderr %q", got.code, got.stderr)
	}
	return strings.TrimSuffix(got.stdout, "\n")
}

// finish ends a job as a worker would.
func (b *bench) finish(t *testing.T, id string) {
	t.Helper()
	claim, err := b.ledger.Claim(t.Context(), id, "w1")
	if err != nil {
		t.Errorf("claim %s: %v", id, err)
		return
	}
	if err := b.ledger.Finish(t.Context(), id, claim.Fence, resultOf(id)); err != nil {
		t.Errorf("finish %s: %v", id, err)
	}
}

// serve finishes the job with the given id as soon as it is there.
func (b *bench) serve(t *testing.T, id string) (wait func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for {
			if e, err := b.ledger.Get(t.Context(), id); err == nil && e.State == ledger.StateQueued {
				b.finish(t, id)
				return
			}
			select {
			case <-t.Context().Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return func() { <-done }
}

func resultOf(id string) job.Result {
	zero := 0
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return job.Result{
		Schema: job.ResultSchema, ID: id, Status: job.StatusOK, Headline: "Finished normally", Returncode: &zero,
		Stdout: "hi\n", StdoutBytes: 3, Encoding: job.EncodingUTF8, Limits: job.DefaultLimits(),
		Summary: &trace.Summary{TotalCalls: 1, TotalLines: 1, MaxRecursionDepth: 1, ExecutionPath: []string{"<module>"},
			Lines: map[string]map[string]int64{"main.py": {"1": 1}}, CountsExact: true},
		Tracer: job.TracerReport{Trust: job.TrustInProcess, Complete: true}, Worker: "w1", Attempt: 1,
		EnqueuedAt: at, StartedAt: &at, FinishedAt: at, Usage: job.Usage{WallMS: 5, CPUMS: 4},
	}
}

func TestSubmitDescribesTheJob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	input := filepath.Join(tree(t, map[string]string{"in.txt": "äöü\n"}), "in.txt")
	id := b.submit(t, "--stdin", input, "--arg", "--flag", "--arg=a,b", "--arg", "", "--wall", "1m30s", "--cpu", "2s", "--memory", "1GiB",
		"--output", "2MB", "--processes", "7", "--open-files", "64", "--file-size", "0", "--events", "0", "--trace-size", "128KiB",
		"--mode", "lines", "--no-values", "--include", "main.py", "--queue", "batch", "--tenant", "ada", "--name", "my job",
		"--label", "a=1", "--label", "b=x;y=z", "--retention", "2h", "--id", "job-1")
	got, err := b.ledger.Input(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	want := job.Job{
		Language: "python", Entrypoint: "main.py", Files: map[string]string{"main.py": "print('hi')\n"}, Stdin: "äöü\n",
		Args: []string{"--flag", "a,b", ""},
		Limits: job.Limits{WallMS: 90_000, CPUMS: 2000, MemoryBytes: 1 << 30, OutputBytes: 2_000_000, Processes: 7, OpenFiles: 64,
			FileBytes: 0, TraceEvents: 0, TraceBytes: 128 << 10},
		Trace: job.TraceOptions{Mode: job.TraceLines, Values: false, Include: []string{"main.py"}},
		Queue: job.QueueBatch, Tenant: "ada", ID: "job-1", Name: "my job", Labels: map[string]string{"a": "1", "b": "x;y=z"}, RetentionS: 7200,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}

	plain := b.submit(t)
	got, err = b.ledger.Input(t.Context(), plain)
	if err != nil {
		t.Fatal(err)
	}
	want = job.Job{ID: plain, Files: map[string]string{"main.py": "print('hi')\n"}, Name: "main.py"}.Normalize()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("job without flags (-want +got):\n%s", diff)
	}
}

func TestSubmit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := tree(t, map[string]string{"a.py": "1\n", "b.py": "2\n", "bad.py": "\xff"})
	path := func(name string) string { return filepath.Join(dir, name) }

	two := b.command(t.Context(), "", "submit", path("a.py"), path("b.py"))
	if ids := strings.Fields(two.stdout); two.code != cli.CodeDone || len(ids) != 2 || ids[0] == ids[1] {
		t.Errorf("two programs: got code %d, stdout %q, want two ids", two.code, two.stdout)
	}
	// Nothing is stored when one of them is refused.
	bad := b.command(t.Context(), "", "submit", path("a.py"), path("bad.py"))
	if bad.code != cli.CodeRefused || bad.stdout != "" {
		t.Errorf("one of two bad: got code %d, stdout %q, want 4 and nothing", bad.code, bad.stdout)
	}
	document := `{"language":"python","code":"print(1)","id":"doc-1"}`
	for range 2 {
		if got := b.command(t.Context(), document, "submit", "--job", "-"); got.code != cli.CodeDone || got.stdout != "doc-1\n" {
			t.Errorf("Job document: got code %d, stdout %q, stderr %q, want doc-1", got.code, got.stdout, got.stderr)
		}
	}
	other := b.command(t.Context(), `{"code":"print(2)","id":"doc-1"}`, "submit", "--job", "-")
	if other.code != cli.CodeRefused || !strings.Contains(other.stderr, "doc-1") || other.stdout != "" {
		t.Errorf("same id, other input: got code %d, stdout %q, stderr %q, want 4 and the id", other.code, other.stdout, other.stderr)
	}
	unknown := b.command(t.Context(), `{"code":"1","kode":"2"}`, "submit", "--job", "-")
	if unknown.code != cli.CodeRefused || !strings.Contains(unknown.stderr, "kode") {
		t.Errorf("unknown field: got code %d, stderr %q, want 4 and the field", unknown.code, unknown.stderr)
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.submit(t)

	early := b.command(t.Context(), "", "get", id)
	if early.code != cli.CodeFailed || early.stdout != "" || !strings.Contains(early.stderr, "queued") {
		t.Errorf("unfinished: got %+v, want code 1 and the state on stderr", early)
	}
	early = b.command(t.Context(), "", "get", id, "--format", "json", "--wait", "50ms")
	if want := `{"id":"` + id + `","state":"queued"}` + "\n"; early.code != cli.CodeFailed || early.stdout != want {
		t.Errorf("unfinished, json: got %+v, want code 1 and %s", early, want)
	}

	wait := b.serve(t, id)
	got := b.command(t.Context(), "", "get", id, "--wait", "1m", "--format", "json")
	wait()
	var r job.Result
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != cli.CodeDone || r.ID != id || r.Stdout != "hi\n" {
		t.Errorf("json: got %+v, error %v", got, err)
	}
	text := b.command(t.Context(), "", "get", id)
	for _, part := range []string{"✓ Finished normally.", "print('hi')", "  hi\n"} {
		if !strings.Contains(text.stdout, part) {
			t.Errorf("text lacks %q:\n%s", part, text.stdout)
		}
	}
	if text.stderr != "" || strings.Contains(text.stdout, "\x1b") {
		t.Errorf("text: got stderr %q and stdout %q, want nothing and no colours", text.stderr, text.stdout)
	}
	if colored := b.command(t.Context(), "", "get", id, "--color", "always"); !strings.Contains(colored.stdout, "\x1b[") {
		t.Errorf("--color always: no colours in %q", colored.stdout)
	}
	execra := b.command(t.Context(), "", "get", id, "--format", "execra")
	var document map[string]any
	if err := json.Unmarshal([]byte(execra.stdout), &document); err != nil || document["returncode"] != 0.0 || document["stdout"] != "hi\n" {
		t.Errorf("execra: got %s, error %v", execra.stdout, err)
	}
	page := b.command(t.Context(), "", "get", id, "--format", "html")
	if page.code != cli.CodeDone || page.stderr != "" || !strings.HasPrefix(page.stdout, "<!doctype html>") || !strings.HasSuffix(page.stdout, "</html>\n") {
		t.Errorf("html: got code %d, stderr %q, and %.40q…", page.code, page.stderr, page.stdout)
	}
	for _, missing := range []string{"nobody", "../etc/passwd", strings.Repeat("x", 500)} {
		if got := b.command(t.Context(), "", "get", missing); got.code != cli.CodeNotFound || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("get %.20q: got %+v, want code 3 and one line", missing, got)
		}
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	file := filepath.Join(tree(t, map[string]string{"main.py": "print('hi')\n"}), "main.py")
	tests := map[string]struct {
		args   []string
		notice bool
	}{
		"text":  {nil, true},
		"quiet": {[]string{"--quiet"}, false},
		"json":  {[]string{"--format", "json"}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait := b.serve(t, "trace-"+name)
			got := b.command(t.Context(), "", append([]string{"trace", file, "--id", "trace-" + name}, tt.args...)...)
			wait()
			if got.code != cli.CodeDone || !strings.Contains(got.stdout, "hi") {
				t.Errorf("got %+v, want a trace", got)
			}
			if want := map[bool]string{true: job.SandboxNotice + "\n\n"}[tt.notice]; got.stderr != want {
				t.Errorf("got stderr %q, want %q", got.stderr, want)
			}
			j, err := b.ledger.Input(t.Context(), "trace-"+name)
			if err != nil || j.Queue != job.QueueInteractive {
				t.Errorf("queue %q, error %v, want interactive: a person waits", j.Queue, err)
			}
		})
	}
}

func TestTraceThatIsNotFinished(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	got := b.command(t.Context(), "1", "trace", "-", "--id", "late", "--wait", "50ms", "--quiet")
	if got.code != cli.CodeFailed || !strings.Contains(got.stderr, "enqueuer get late") || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("got %+v, want code 1 and how to go on", got)
	}
}

// TestRefusingRedis asks a Redis for a database that it does not have: to start one would be wrong advice.
func TestRefusingRedis(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	got := command(t.Context(), nil, "", "get", "x", "--redis", strings.TrimSuffix(b.url, "/0")+"/99")
	if got.code != cli.CodeFailed || !strings.Contains(got.stderr, "is the database") || strings.Contains(got.stderr, "embedded") || strings.Contains(got.stderr, "..") {
		t.Errorf("got %+v, want advice about the database", got)
	}
}

// TestInterruptedTrace interrupts a trace whose job waits in the queue: the
// job is canceled, and what there is of a result is shown.
func TestInterruptedTrace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	answers := make(chan outcome)
	go func() { answers <- b.command(ctx, "1", "trace", "-", "--id", "stopped") }()
	b.eventually(t, "stopped", ledger.StateQueued)
	interrupt()
	got := <-answers
	if got.code != cli.CodeDone || !strings.Contains(got.stderr, "canceled stopped") || !strings.Contains(got.stdout, "Canceled") {
		t.Errorf("got %+v, want the canceled result", got)
	}
	b.eventually(t, "stopped", ledger.StateCanceled)
}

// patience bounds what must happen in the end, also on a machine that is busy with other things.
const patience = time.Minute

// eventually waits until a job is in a state.
func (b *bench) eventually(t *testing.T, id string, want ledger.State) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for {
		e, err := b.ledger.Get(t.Context(), id)
		if err == nil && e.State == want {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s: got state %q, error %v, want %s", id, e.State, err, want)
		case <-ticker.C:
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	queued, running, finished := b.submit(t), b.submit(t), b.submit(t)
	if _, err := b.ledger.Claim(t.Context(), running, "w1"); err != nil {
		t.Fatal(err)
	}
	b.finish(t, finished)
	tests := []struct {
		id   string
		code int
		says string
	}{
		{queued, cli.CodeDone, queued + " canceled\n"},
		{running, cli.CodeDone, running + " is being stopped\n"},
		{finished, cli.CodeDone, finished + " had ended already: finished\n"},
		{queued, cli.CodeDone, queued + " canceled\n"},
		{"nobody", cli.CodeNotFound, ""},
	}
	for _, tt := range tests {
		if got := b.command(t.Context(), "", "cancel", tt.id); got.code != tt.code || got.stdout != tt.says {
			t.Errorf("cancel: got %+v, want code %d and %q", got, tt.code, tt.says)
		}
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	text := b.command(t.Context(), "", "doctor")
	if text.code != cli.CodeDone || !strings.Contains(text.stdout, "redis policy") || !strings.Contains(text.stdout, "none takes jobs") {
		t.Errorf("got %+v, want the rows", text)
	}
	var document struct {
		Healthy bool
		Checks  []struct{ Name, Status string }
	}
	got := b.command(t.Context(), "", "doctor", "--format", "json")
	if err := json.Unmarshal([]byte(got.stdout), &document); err != nil || !document.Healthy || len(document.Checks) < 4 {
		t.Errorf("got %+v, error %v", got, err)
	}
	evicting := redistest.Start(t, redistest.Options{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}})
	refused := command(t.Context(), nil, "", "doctor", "--redis", evicting.URL())
	if refused.code != cli.CodeFailed || !strings.Contains(refused.stdout, "noeviction") {
		t.Errorf("evicting Redis: got %+v, want code 1 and the remedy", refused)
	}
}

// What workers of the fleet would reject is refused, and limits that nobody names are within what they take.
func TestLimitsOfTheWorkers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rdb, err := queue.OpenRedis(queue.RedisOptions{URL: b.url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rdb.Close() }()
	member, err := roster.Join(t.Context(), rdb, "fleet", "w", zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer member.Leave(context.WithoutCancel(t.Context()))
	lowered := job.MaxLimits()
	lowered.WallMS = 5_000
	if err := member.Offer(lowered); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for got := b.command(t.Context(), "", "submit", "-", "--wall", "6s"); got.code != cli.CodeRefused; got = b.command(t.Context(), "", "submit", "-", "--wall", "6s") {
		if time.Now().After(deadline) {
			t.Fatalf("over the maximum: code %d, stderr %q", got.code, got.stderr)
		}
	}
	got := b.command(t.Context(), `{"code":"","limits":{"wall_ms":6000}}`, "submit", "--job", "-")
	if got.code != cli.CodeRefused || !strings.Contains(got.stderr, "limits.wall_ms") {
		t.Errorf("a Job document over the maximum: code %d, stderr %q", got.code, got.stderr)
	}
	j, err := b.ledger.Input(t.Context(), b.submit(t))
	if err != nil || j.Limits.WallMS != 5_000 {
		t.Errorf("without a flag: wall_ms %d, error %v, want the workers' maximum", j.Limits.WallMS, err)
	}
	dir := tree(t, map[string]string{"a.py": "print(1)\n"})
	for flag, code := range map[string]int{"--wall=6s": cli.CodeRefused, "--wall=5s": cli.CodeDone} {
		if got := b.command(t.Context(), "", "batch", "submit", dir, flag); got.code != code || code != cli.CodeDone && !strings.Contains(got.stderr, "a.py: ") {
			t.Errorf("batch %s: code %d, stderr %q, want %d", flag, got.code, got.stderr, code)
		}
	}
	base, _ := startServe(t, b)
	for code, text := fetch(t, "GET", base+"/api/v1/limits", "", ""); code != 200 || !strings.Contains(text, `"maximum":{"wall_ms":5000,`); code, text = fetch(t, "GET", base+"/api/v1/limits", "", "") {
		if time.Now().After(deadline) {
			t.Fatalf("the server does not say what the workers take: %d %s", code, text)
		}
		<-time.After(20 * time.Millisecond)
	}
	if got := b.command(t.Context(), "", "doctor"); !strings.Contains(got.stdout, "taking jobs: 1") {
		t.Errorf("doctor: got %q, want the worker counted", got.stdout)
	}
}

// A Redis that goes away while a command waits is named, with what to do, on one line.
func TestRedisGoesAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	rdb, env := server.Client(), map[string]string{"REDIS_URL": server.URL()}
	if got := command(t.Context(), env, "print(1)\n", "submit", "-", "--id", "a"); got.code != cli.CodeDone {
		t.Fatalf("submit: code %d, stderr %q", got.code, got.stderr)
	}
	ended := make(chan outcome, 2)
	go func() { ended <- command(t.Context(), env, "", "get", "a", "--wait", "2s", "-q") }()
	go func() {
		ended <- command(t.Context(), env, "print(1)\n", "trace", "-", "--id", "a", "--wait", "2s", "-q")
	}()
	deadline := time.Now().Add(patience)
	for rdb.PubSubNumSub(t.Context(), "tf:done").Val()["tf:done"] < 2 {
		if time.Now().After(deadline) {
			t.Fatal("the commands do not wait")
		}
		<-time.After(5 * time.Millisecond)
	}
	server.Kill()
	for range 2 {
		got := <-ended
		if got.code != cli.CodeFailed || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, "lost the Redis at "+server.URL()) || !strings.Contains(got.stderr, "enqueuer get a --wait") {
			t.Errorf("code %d, stderr %q", got.code, got.stderr)
		}
	}
}
