// Package python tests the Python client, and the examples of the documentation, against a real server.
package python

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execra/tracefleet/internal/api"
	"github.com/execra/tracefleet/internal/api/access"
	"github.com/execra/tracefleet/internal/deadletter"
	"github.com/execra/tracefleet/internal/intake"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/redistest"
	"github.com/execra/tracefleet/internal/session"
	"github.com/execra/tracefleet/internal/trace"
	"github.com/execra/tracefleet/internal/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is two replicas of the API over one Redis, with a stand-in for the workers.
type fleet struct {
	urls  [2]string
	token string
}

func start(t *testing.T) fleet {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	token, line, err := access.NewToken("tests", access.RoleOperate, "")
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := access.ParseTokens(strings.NewReader(line))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := fleet{token: token}
	var done []<-chan error
	run := func(part func(context.Context) error) {
		ended := make(chan error, 1)
		done = append(done, ended)
		go func() { ended <- part(ctx) }()
	}
	for i := range f.urls {
		rdb := server.Client()
		book, err := ledger.New(rdb, ledger.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = book.Close() })
		producer, err := queue.NewProducer(rdb, queue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		desk, err := intake.New(book, producer, intake.Config{})
		if err != nil {
			t.Fatal(err)
		}
		a, err := api.New(ctx, api.Config{
			Guard: access.NewGuard(tokens, session.New(rdb)), Desk: desk, Book: book, Dead: book, Office: deadletter.New(book, producer),
			Batches: book, Hooks: webhook.NewStore(rdb), Targets: webhook.Targets{Private: []string{"127.0.0.1"}}, RatePerSecond: 1e5, Burst: 1e5,
		})
		if err != nil {
			t.Fatal(err)
		}
		s, err := a.Listen(ctx, "127.0.0.1:0", 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.urls[i] = "http://" + s.Addr()
		run(s.Run)
		if i == 0 {
			w := &worker{book: book}
			consumer, err := queue.NewConsumer(rdb, queue.Config{Concurrency: 8, DrainGrace: time.Millisecond}, w.handle, nil)
			if err != nil {
				t.Fatal(err)
			}
			run(consumer.Run)
		}
	}
	t.Cleanup(func() {
		cancel()
		for _, ended := range done {
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
	return f
}

// worker stands in for the workers: the first line of a program says what becomes of it.
type worker struct{ book *ledger.Ledger }

func (w *worker) handle(ctx context.Context, d queue.Delivery) (queue.Report, error) {
	claim, err := w.book.Claim(ctx, d.Envelope.ID, "stand-in")
	if err != nil {
		return queue.Report{}, nil // It was canceled meanwhile.
	}
	held, stop := w.book.Hold(ctx, claim)
	defer stop()
	j, err := w.book.Input(ctx, d.Envelope.ID)
	if err != nil {
		return queue.Report{}, err
	}
	order, _, _ := strings.Cut(j.Files[j.Entrypoint], "\n")
	r := result(j)
	switch {
	case strings.HasPrefix(order, "# sleep "), order == "# hold":
		seconds, err := strconv.ParseFloat(strings.TrimPrefix(order, "# sleep "), 64)
		if err != nil {
			seconds = 60
		}
		timer := time.NewTimer(time.Duration(seconds * float64(time.Second)))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-held.Done():
			why := "canceled by a user"
			r.Status, r.Headline, r.Error, r.Returncode = job.StatusCanceled, why, &why, nil
		}
	case strings.Contains(j.Files[j.Entrypoint], "1/0"):
		one := 1
		r.Status, r.Returncode, r.Headline = job.StatusException, &one, "ZeroDivisionError: division by zero (main.py:2 in <module>)"
		r.Exception = &trace.Exception{Type: "ZeroDivisionError", Message: "division by zero", File: "main.py", Line: 2, Function: "<module>"}
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return queue.Report{Status: r.Status, Headline: r.Headline}, w.book.Finish(finish, d.Envelope.ID, claim.Fence, r)
}

func result(j job.Job) job.Result {
	zero, now := 0, time.Now().UTC()
	return job.Result{
		Schema: job.ResultSchema, ID: j.ID, Status: job.StatusOK, Headline: "Finished normally", Returncode: &zero, Stdout: j.Stdin, StdoutBytes: int64(len(j.Stdin)),
		Encoding: job.EncodingUTF8, Limits: j.Limits, Worker: "stand-in", Attempt: 1, EnqueuedAt: now, StartedAt: &now, FinishedAt: now,
		Summary: &trace.Summary{TotalCalls: 1, TotalLines: 1, MaxRecursionDepth: 1, ExecutionPath: []string{"<module>"}},
		Trace: &trace.Trace{
			Schema: trace.Schema, Files: []trace.File{{ID: 1, Path: "main.py", Lines: 2}},
			Functions: []trace.Function{{ID: 1, Name: "<module>", File: 1, Line: 1, Kind: "module"}},
			Events:    []trace.Event{{Seq: 1, Kind: trace.KindCall, Func: 1, Frame: 1, Line: 1, Depth: 1, Thread: 1}},
		},
		Usage: job.Usage{WallMS: 10, CPUMS: 5, MaxMemoryBytes: 9 << 20},
	}
}

func (f fleet) environ() []string {
	src, err := filepath.Abs("src")
	if err != nil {
		return nil
	}
	return append(os.Environ(), "PYTHONPATH="+src, "PYTHONDONTWRITEBYTECODE=1", "TRACEFLEET_TEST_URL="+f.urls[0], "TRACEFLEET_TEST_URL_2="+f.urls[1],
		"TRACEFLEET_TEST_TOKEN="+f.token, "TRACEFLEET_URL="+f.urls[0], "TRACEFLEET_TOKEN="+f.token, "SANDBOX_MODE=sandboxed")
}

// TestClient runs the unit tests of the Python package with the python3 of this machine.
func TestClient(t *testing.T) {
	t.Parallel()
	f := start(t)
	cmd := exec.CommandContext(t.Context(), "python3", "-X", "dev", "-W", "error", "-m", "unittest", "discover", "-s", "tests", "-t", ".")
	cmd.Env = f.environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("python3 -m unittest: %v\n%s", err, out)
	}
	if strings.Contains(string(out), "skipped") {
		t.Errorf("a test was skipped:\n%s", out)
	}
	t.Logf("%s", out)
}

// TestExamples runs every example of docs/api.md, and of the package's README.
func TestExamples(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, page := range []string{"../../docs/api.md", "README.md"} {
		for _, e := range examples(t, page) {
			t.Run(filepath.Base(page)+":"+strconv.Itoa(e.line), func(t *testing.T) {
				args := map[string][]string{"bash": {"bash", "-euo", "pipefail", "-c"}, "python": {"python3", "-X", "dev", "-c"}}[e.language]
				cmd := exec.CommandContext(t.Context(), args[0], append(args[1:], e.code)...)
				cmd.Env, cmd.Dir = f.environ(), t.TempDir()
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s line %d: %v\n%s\n%s", page, e.line, err, e.code, out)
				}
			})
		}
	}
}

type example struct {
	language, code string
	line           int
}

// examples finds the blocks of a page that are marked bash or python.
func examples(t *testing.T, page string) []example {
	t.Helper()
	file, err := os.Open(page)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var all []example
	inside := false
	number := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		number++
		text := lines.Text()
		switch {
		case !inside && (text == "```bash" || text == "```python"):
			inside = true
			all = append(all, example{language: strings.TrimPrefix(text, "```"), line: number})
		case inside && text == "```":
			inside = false
		case inside:
			all[len(all)-1].code += text + "\n"
		}
	}
	if len(all) == 0 {
		t.Errorf("%s has no examples", page)
	}
	return all
}
