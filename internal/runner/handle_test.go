package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/redistest"
	"github.com/execra/tracefleet/internal/runner"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/sandbox/fake"
	"github.com/execra/tracefleet/internal/trace"
	"github.com/execra/tracefleet/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout bounds every wait of a test.
const testTimeout = time.Minute

// fixture is a worker's inside: a real ledger on a real Redis, and a scripted sandbox.
type fixture struct {
	*testing.T
	rdb      redis.UniversalClient
	ledger   *ledger.Ledger
	launcher *fake.Launcher
	registry *prometheus.Registry
	cfg      runner.Config
	// store is what the Runner sees; the ledger itself unless a test puts something before it.
	store runner.Ledger
}

func setup(t *testing.T) *fixture {
	t.Helper()
	return setupWith(t, redistest.Start(t, redistest.Options{}).Client())
}

func setupWith(t *testing.T, rdb redis.UniversalClient) *fixture {
	t.Helper()
	l, err := ledger.New(rdb, ledger.Config{BeatEvery: 50 * time.Millisecond, StaleAfter: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	reg := prometheus.NewRegistry()
	f := &fixture{T: t, rdb: rdb, ledger: l, launcher: fake.New(), registry: reg, store: l}
	f.cfg = runner.Config{Worker: "w-1", Metrics: runner.NewMetrics(reg), StoreTimeout: testTimeout}
	t.Cleanup(func() {
		if n, _ := f.launcher.Remaining(context.Background()); n > 0 && !t.Failed() {
			t.Errorf("%d sandboxes are left", n)
		}
	})
	return f
}

// create stores a job with the id of the test.
func (f *fixture) create(change func(*job.Job)) job.Job {
	f.Helper()
	j := job.Job{ID: "job-1", Files: map[string]string{"main.py": ""}}.Normalize()
	if change != nil {
		change(&j)
	}
	if _, _, err := f.ledger.Create(f.Context(), j); err != nil {
		f.Fatal(err)
	}
	return j
}

func source(directives string) func(*job.Job) {
	return func(j *job.Job) { j.Files = map[string]string{"main.py": directives} }
}

func (f *fixture) runner() *runner.Runner {
	f.Helper()
	r, err := runner.New(f.store, f.launcher, f.cfg)
	if err != nil {
		f.Fatal(err)
	}
	return r
}

func delivery() queue.Delivery {
	return queue.Delivery{Envelope: queue.Envelope{V: 1, ID: "job-1"}, MaxRetry: 3}
}

func lastDelivery() queue.Delivery {
	d := delivery()
	d.Retried, d.LastAttempt = 3, true
	return d
}

// handle delivers the job and returns its stored result.
func (f *fixture) handle(d queue.Delivery) job.Result {
	f.Helper()
	report, err := f.runner().Handle(f.Context(), d)
	if err != nil {
		f.Fatalf("Handle: %v", err)
	}
	r := f.result()
	if report.Status != r.Status || report.Headline != r.Headline {
		f.Errorf("got report %+v of result %s %q", report, r.Status, r.Headline)
	}
	return r
}

func (f *fixture) result() job.Result {
	f.Helper()
	r, err := f.ledger.Result(f.Context(), "job-1")
	if err != nil {
		f.Fatal(err)
	}
	return r
}

func (f *fixture) entry() ledger.Entry {
	f.Helper()
	e, err := f.ledger.Get(f.Context(), "job-1")
	if err != nil {
		f.Fatal(err)
	}
	return e
}

// wantFault checks the error of Handle and the state it left.
func (f *fixture) wantFault(err error, class queue.Class, state ledger.State) {
	f.Helper()
	if err == nil || queue.ClassOf(err) != class {
		f.Errorf("got error %v, class %s, want class %s", err, queue.ClassOf(err), class)
	}
	if got := f.entry().State; got != state {
		f.Errorf("got state %s, want %s", got, state)
	}
}

func TestHandleStoresAWholeResult(t *testing.T) {
	t.Parallel()
	f := setup(t)
	started := time.Date(2026, 1, 2, 3, 4, 5, 678_912_345, time.UTC)
	f.launcher.Script(fake.Step{Outcome: sandbox.Outcome{
		End: &wire.EndInfo{
			Exited: true, ExitCode: 3, OOMKills: 1, WallMS: 15, CPUMS: 12, MaxMemoryBytes: 9 << 20, MaxProcesses: 2, StdoutBytes: 6, StderrBytes: 3,
		},
		EngineOOM: true,
		Stdout:    sandbox.Stream{Data: []byte("1\n2\n3\n"), Total: 6}, Stderr: sandbox.Stream{Data: []byte("\xff!\n"), Total: 3},
		StartedAt: started, Wall: 20 * time.Millisecond,
	}})
	j := f.create(func(j *job.Job) { j.Limits.WallMS, j.Trace.Mode = 5_000, job.TraceOff })
	got := f.handle(delivery())

	code, at := 3, started.Truncate(time.Millisecond)
	want := job.Result{
		Schema: job.ResultSchema, ID: "job-1", Status: job.StatusExitNonzero, Headline: "Exited with code 3.", Returncode: &code,
		LimitsHit: []job.LimitName{job.HitMemory}, Stdout: "1\n2\n3\n", Stderr: "\ufffd!\n", StdoutBytes: 6, StderrBytes: 3,
		Encoding: job.EncodingUTF8Lossy, Effects: []trace.Effect{},
		Usage: job.Usage{WallMS: 15, CPUMS: 12, MaxMemoryBytes: 9 << 20, MaxProcesses: 2}, Limits: j.Limits,
		Runtime: job.Runtime{Language: "python", Version: "3.13.0", Image: "sha256:fake", Engine: "fake", OCIRuntime: "fake"},
		Worker:  "w-1", Attempt: 1, EnqueuedAt: f.entry().CreatedAt, StartedAt: &at,
	}
	ignore := cmp.Options{
		cmpopts.IgnoreFields(job.Result{}, "Tracer", "FinishedAt"), cmpopts.IgnoreFields(job.Usage{}, "QueueMS", "StartupMS"),
	}
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if got.FinishedAt.Before(got.EnqueuedAt.Add(-time.Second)) || got.Tracer.Trust != job.TrustInProcess || got.Tracer.Complete {
		t.Errorf("got finished %s, tracer %+v", got.FinishedAt, got.Tracer)
	}
	if e := f.entry(); e.State != ledger.StateFinished || e.Status != job.StatusExitNonzero {
		t.Errorf("got entry %+v, want it finished", e)
	}
	if n, err := testutil.GatherAndCount(f.registry, "tracefleet_runner_job_seconds"); err != nil || n != 4 {
		t.Errorf("got %d phases measured, error %v, want 4", n, err)
	}
}

func TestHandleStatuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		source string
		change func(*job.Job)
		status job.Status
		err    string
	}{
		"ok":      {source: `#: stdout "hello"`, status: job.StatusOK},
		"exit":    {source: `#: exit 3`, status: job.StatusExitNonzero},
		"signal":  {source: `#: raise 11`, status: job.StatusSignaled},
		"wall":    {source: "#: stdout \"before\"\n#: hang", status: job.StatusTimeLimit, err: "Code execution timed out after 0.1s."},
		"cpu":     {source: "#: spin", change: func(j *job.Job) { j.Limits.WallMS = 5_000 }, status: job.StatusTimeLimit, err: "Code execution exceeded its CPU limit of 0.1s."},
		"memory":  {source: "#: grow", status: job.StatusMemoryLimit, err: "Code execution exceeded its memory limit of 256 MiB."},
		"stdout":  {source: "#: flood stdout 5000", status: job.StatusOutputLimit, err: "Code execution exceeded its output limit of 1000 bytes on stdout."},
		"at once": {source: "#: flood stdout 1000", status: job.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.create(func(j *job.Job) {
				source(c.source)(j)
				j.Limits.WallMS, j.Limits.CPUMS, j.Limits.OutputBytes = 100, 100, 1000
				if c.change != nil {
					c.change(j)
				}
			})
			r := f.handle(delivery())
			text := ""
			if r.Error != nil {
				text = *r.Error
			}
			if r.Status != c.status || text != c.err {
				t.Errorf("got %s, error %q, want %s, %q", r.Status, text, c.status, c.err)
			}
			if name == "wall" && r.Stdout != "before" {
				t.Errorf("got stdout %q, want what was written before the kill", r.Stdout)
			}
			if name == "stdout" && (len(r.Stdout) != 1000 || !r.StdoutTruncated || r.StdoutBytes <= 1000) {
				t.Errorf("got %d bytes of stdout, truncated %t, total %d", len(r.Stdout), r.StdoutTruncated, r.StdoutBytes)
			}
		})
	}
}

func TestHandleRejects(t *testing.T) {
	t.Parallel()
	damage := func(key string, value any) func(*fixture) {
		return func(f *fixture) {
			if err := f.rdb.Set(f.Context(), key, value, 0).Err(); err != nil {
				f.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(*fixture)
		want  string
	}{
		"entry is garbage": {func(f *fixture) {
			if err := f.rdb.HSet(f.Context(), "tf:{job-1}", "digest", "x", "queue", "\xff").Err(); err != nil {
				f.Fatal(err)
			}
		}, "The job was refused: what the fleet had stored of it is damaged"},
		"entry is no hash": {damage("tf:{job-1}", "x"), "The job was refused: what the fleet had stored of it is damaged"},
		"input is garbage": {damage("tf:{job-1}:input", "x"), "The job was refused: its stored input is damaged"},
		"input is empty":   {damage("tf:{job-1}:input", ""), "The job was refused: its stored input is damaged"},
		"input is no string": {func(f *fixture) {
			f.rdb.Del(f.Context(), "tf:{job-1}:input")
			f.rdb.LPush(f.Context(), "tf:{job-1}:input", "x")
		}, "The job was refused: its stored input is damaged"},
		"input is missing": {func(f *fixture) { f.rdb.Del(f.Context(), "tf:{job-1}:input") }, "The job was refused: its stored input is missing"},
		"input of another job": {func(f *fixture) {
			other := job.Job{ID: "job-2", Files: map[string]string{"main.py": "other"}}.Normalize()
			if _, _, err := f.ledger.Create(f.Context(), other); err != nil {
				f.Fatal(err)
			}
			damage("tf:{job-1}:input", f.rdb.Get(f.Context(), "tf:{job-2}:input").Val())(f)
		}, "The job was refused: its stored input is damaged"},
		"input was exchanged": {func(f *fixture) {
			if err := f.rdb.HSet(f.Context(), "tf:{job-1}", "digest", strings.Repeat("0", 64)).Err(); err != nil {
				f.Fatal(err)
			}
		}, "The job was refused: its stored input is not what was submitted"},
		"limits above this worker's": {func(f *fixture) {
			f.cfg.Maxima = job.MaxLimits()
			f.cfg.Maxima.WallMS, f.cfg.Maxima.Processes = 5_000, 8
		}, "The job was refused: it asks for more than this worker allows: limits.wall_ms: must be between 100 and 5000, got 10000; limits.processes: must be between 1 and 8, got 64"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.create(nil)
			c.spoil(f)
			r := f.handle(delivery())
			if r.Status != job.StatusRejected || r.Error == nil || !strings.HasPrefix(*r.Error, c.want) || r.Headline == "" || r.StartedAt != nil {
				t.Errorf("got %s, %q, headline %q, want rejected, %q", r.Status, *r.Error, r.Headline, c.want)
			}
			if n := len(f.launcher.Launches()); n != 0 {
				t.Errorf("%d sandboxes were launched", n)
			}
			if _, err := f.runner().Handle(t.Context(), delivery()); err != nil {
				t.Errorf("second delivery: %v, want it over", err)
			}
		})
	}
}

func TestHandleRejectsACorruptPayload(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.create(nil)
	d := delivery()
	d.Corrupt = queue.ErrCorrupt
	if r := f.handle(d); r.Status != job.StatusRejected || !strings.HasPrefix(*r.Error, "The job was refused: its message in the queue is damaged") {
		t.Errorf("got %s, %q, want rejected", r.Status, *r.Error)
	}
}

func TestHandleWithoutAClaim(t *testing.T) {
	t.Parallel()
	t.Run("not found", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		if _, err := f.runner().Handle(t.Context(), delivery()); queue.ClassOf(err) != queue.ClassPermanent {
			t.Errorf("got %v, want a permanent error", err)
		}
	})
	t.Run("busy", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		f.create(nil)
		if _, err := f.ledger.Claim(t.Context(), "job-1", "w-2"); err != nil {
			t.Fatal(err)
		}
		_, err := f.runner().Handle(t.Context(), delivery())
		f.wantFault(err, queue.ClassBusy, ledger.StateRunning)
	})
	t.Run("finished", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		f.create(nil)
		first := f.handle(delivery())
		if again := f.handle(delivery()); !again.FinishedAt.Equal(first.FinishedAt) || len(f.launcher.Jobs()) != 1 {
			t.Errorf("the job was run %d times", len(f.launcher.Jobs()))
		}
	})
	t.Run("canceled while queued", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		f.create(nil)
		if _, err := f.ledger.Cancel(t.Context(), "job-1"); err != nil {
			t.Fatal(err)
		}
		if r := f.handle(delivery()); r.Status != job.StatusCanceled || len(f.launcher.Launches()) != 0 {
			t.Errorf("got %s after %d launches, want canceled after none", r.Status, len(f.launcher.Launches()))
		}
	})
}

// running starts a delivery whose program hangs, and waits until it runs.
func (f *fixture) running(ctx context.Context, d queue.Delivery) <-chan error {
	f.Helper()
	started := make(chan struct{})
	f.launcher.Script(fake.Step{
		Outcome: sandbox.Outcome{Stdout: sandbox.Stream{Data: []byte("so far"), Total: 6}},
		Started: started, Release: make(chan struct{}),
	})
	r, done := f.runner(), make(chan error, 1)
	go func() {
		_, err := r.Handle(ctx, d)
		done <- err
	}()
	select {
	case <-started:
	case err := <-done:
		f.Fatalf("Handle returned before its program ran: %v", err)
	case <-time.After(testTimeout):
		f.Fatal("the program did not start")
	}
	return done
}

func (f *fixture) await(done <-chan error) error {
	f.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(testTimeout):
		f.Fatal("Handle did not return")
		return nil
	}
}

func TestCancelKeepsWhatWasDone(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.create(nil)
	done := f.running(t.Context(), delivery())
	if state, err := f.ledger.Cancel(t.Context(), "job-1"); err != nil || state != ledger.StateRunning {
		t.Fatalf("Cancel: got %s, %v", state, err)
	}
	if err := f.await(done); err != nil {
		t.Fatalf("Handle: %v, want no error: a canceled job is never retried", err)
	}
	r := f.result()
	if r.Status != job.StatusCanceled || r.Stdout != "so far" || *r.Error != "Code execution was canceled by a user." || f.entry().State != ledger.StateCanceled {
		t.Errorf("got %s, stdout %q, error %q, state %s", r.Status, r.Stdout, *r.Error, f.entry().State)
	}
}

func TestCancelDuringTheLaunch(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.create(nil)
	f.launcher.HoldLaunches(make(chan struct{}))
	done := make(chan error, 1)
	r := f.runner()
	go func() {
		_, err := r.Handle(t.Context(), delivery())
		done <- err
	}()
	f.until("a launch", func() bool { return len(f.launcher.Launches()) == 1 })
	if _, err := f.ledger.Cancel(t.Context(), "job-1"); err != nil {
		t.Fatal(err)
	}
	if err := f.await(done); err != nil {
		t.Fatal(err)
	}
	if r := f.result(); r.Status != job.StatusCanceled || r.StartedAt != nil {
		t.Errorf("got %s, started %v, want canceled, never started", r.Status, r.StartedAt)
	}
}

// until polls until ok, at most testTimeout.
func (f *fixture) until(what string, ok func() bool) {
	f.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(testTimeout); !ok(); {
		select {
		case <-ticker.C:
		case <-deadline:
			f.Fatalf("no %s within %s", what, testTimeout)
		}
	}
}

func TestDrainReleasesUncounted(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.create(nil)
	ctx, interrupt := context.WithCancelCause(t.Context())
	done := f.running(ctx, lastDelivery())
	interrupt(queue.ErrDraining)
	f.wantFault(f.await(done), queue.ClassDraining, ledger.StateQueued)
	if e := f.entry(); e.Attempts != 0 {
		t.Errorf("got %d attempts, want the drained one uncounted", e.Attempts)
	}
	if r := f.handle(delivery()); r.Status != job.StatusOK || r.Attempt != 1 {
		t.Errorf("next delivery: got %s, attempt %d", r.Status, r.Attempt)
	}
}

func TestALostClaimStoresNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.create(nil)
	done := f.running(t.Context(), delivery())
	// As if this worker had been given up, and another had taken the job.
	if err := f.rdb.HIncrBy(t.Context(), "tf:{job-1}", "fence", 1).Err(); err != nil {
		t.Fatal(err)
	}
	f.wantFault(f.await(done), queue.ClassBusy, ledger.StateRunning)
	if _, err := f.ledger.Result(t.Context(), "job-1"); !errors.Is(err, ledger.ErrNotFinished) {
		t.Errorf("got %v, want no result", err)
	}
}

// lostBeforeFinish takes the claim away between the run and the storing of its result.
type lostBeforeFinish struct {
	runner.Ledger
	lose func()
}

func (l lostBeforeFinish) Finish(ctx context.Context, id string, fence int64, r job.Result) error {
	l.lose()
	return l.Ledger.Finish(ctx, id, fence, r)
}

func TestALateResultDoesNotOverwrite(t *testing.T) {
	t.Parallel()
	t.Run("while another worker runs the job", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		f.create(nil)
		f.store = lostBeforeFinish{f.ledger, func() { f.rdb.HIncrBy(t.Context(), "tf:{job-1}", "fence", 1) }}
		_, err := f.runner().Handle(t.Context(), delivery())
		f.wantFault(err, queue.ClassBusy, ledger.StateRunning)
	})
	t.Run("after another worker finished it", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		f.create(source(`#: stdout "late"`))
		f.store = lostBeforeFinish{f.ledger, func() {
			fence := f.rdb.HIncrBy(t.Context(), "tf:{job-1}", "fence", 1).Val()
			other := job.Result{Schema: job.ResultSchema, ID: "job-1", Status: job.StatusOK, Headline: "first", Encoding: job.EncodingUTF8, Stdout: "first"}
			if err := f.ledger.Finish(t.Context(), "job-1", fence, other); err != nil {
				t.Error(err)
			}
		}}
		report, err := f.runner().Handle(t.Context(), delivery())
		if err != nil || report.Headline != "first" || f.result().Stdout != "first" {
			t.Errorf("got report %+v, error %v, stdout %q, want the first result to stand", report, err, f.result().Stdout)
		}
	})
}
