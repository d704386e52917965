package intake_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execra/tracefleet/internal/intake"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// spyQueue counts what goes to the real queue, and fails on demand.
type spyQueue struct {
	intake.Queue
	enqueued []queue.Envelope
	removed  []string
	err      error
}

func (q *spyQueue) Enqueue(ctx context.Context, e queue.Envelope, to job.Queue) error {
	if q.err != nil {
		return q.err
	}
	err := q.Queue.Enqueue(ctx, e, to)
	if err == nil {
		q.enqueued = append(q.enqueued, e)
	}
	return err
}

func (q *spyQueue) Remove(ctx context.Context, e queue.Envelope, from job.Queue) error {
	q.removed = append(q.removed, e.ID)
	return q.Queue.Remove(ctx, e, from)
}

type fixture struct {
	desk   *intake.Desk
	ledger *ledger.Ledger
	queue  *spyQueue
	keys   func() int64
}

func setup(t *testing.T, cfg intake.Config) *fixture {
	t.Helper()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	l, err := ledger.New(rdb, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p, err := queue.NewProducer(rdb, queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	q := &spyQueue{Queue: p}
	desk, err := intake.New(l, q, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{desk: desk, ledger: l, queue: q, keys: func() int64 { return rdb.DBSize(t.Context()).Val() }}
}

func newJob(source string) job.Job { return job.Job{Files: map[string]string{"main.py": source}} }

func TestSubmit(t *testing.T) {
	t.Parallel()
	f := setup(t, intake.Config{})
	j := newJob("print(1)")
	j.Tenant, j.Name, j.Queue = "t", "a name", job.QueueBatch
	id, existed, err := f.desk.Submit(t.Context(), j)
	if err != nil || existed || !job.ValidID(id) {
		t.Fatalf("Submit: got %q, %t, %v", id, existed, err)
	}
	e, err := f.desk.Get(t.Context(), id)
	if err != nil || e.State != ledger.StateQueued || e.Queue != job.QueueBatch {
		t.Errorf("got entry %+v, error %v", e, err)
	}
	want := queue.Envelope{V: 1, ID: id, Tenant: "t", Name: "a name", Bytes: e.InputBytes, SHA256: j.Digest(), QueuedAt: e.QueuedAt}
	if len(f.queue.enqueued) != 1 || f.queue.enqueued[0] != want {
		t.Errorf("got tasks %+v, want %+v", f.queue.enqueued, want)
	}
	other, _, err := f.desk.Submit(t.Context(), j)
	if err != nil || other == id {
		t.Errorf("the same job without an id: got %q, %v, want a new id", other, err)
	}
	if _, err := f.desk.Result(t.Context(), id); !errors.Is(err, intake.ErrNotFinished) {
		t.Errorf("Result: got %v, want ErrNotFinished", err)
	}
}

func TestSubmitIsIdempotent(t *testing.T) {
	t.Parallel()
	f := setup(t, intake.Config{})
	j := newJob("print(1)")
	j.ID = "mine"
	for i := range 3 {
		id, existed, err := f.desk.Submit(t.Context(), j)
		if id != "mine" || existed != (i > 0) || err != nil {
			t.Errorf("submission %d: got %q, %t, %v", i, id, existed, err)
		}
	}
	if len(f.queue.enqueued) != 1 {
		t.Errorf("got %d tasks, want 1", len(f.queue.enqueued))
	}
	j.Files = map[string]string{"main.py": "print(2)"}
	if _, _, err := f.desk.Submit(t.Context(), j); !errors.Is(err, intake.ErrConflict) {
		t.Errorf("other input: got %v, want ErrConflict", err)
	}
}

func TestSubmitRefusesAndStoresNothing(t *testing.T) {
	t.Parallel()
	maxima := job.MaxLimits()
	maxima.WallMS = 5_000
	f := setup(t, intake.Config{Maxima: maxima})
	for name, change := range map[string]func(*job.Job){
		"language": func(j *job.Job) { j.Language = "ruby" },
		"path":     func(j *job.Job) { j.Files["../x"] = "" },
		"maximum":  func(j *job.Job) { j.Limits = job.DefaultLimits() },
		"id":       func(j *job.Job) { j.ID = "a b" },
	} {
		j := newJob("")
		j.Limits = job.DefaultLimits().Clamp(maxima)
		change(&j)
		var invalid *job.ValidationError
		if id, _, err := f.desk.Submit(t.Context(), j); !errors.As(err, &invalid) || id != "" {
			t.Errorf("%s: got %q, %v, want a *job.ValidationError", name, id, err)
		}
	}
	if n := f.keys(); n != 0 {
		t.Errorf("%d keys are in Redis, want none", n)
	}
}

func TestSubmitAgainAfterTheQueueFailed(t *testing.T) {
	t.Parallel()
	f := setup(t, intake.Config{})
	j := newJob("")
	j.ID = "mine"
	f.queue.err = errors.New("no route")
	id, existed, err := f.desk.Submit(t.Context(), j)
	var unqueued *intake.QueueError
	if !errors.As(err, &unqueued) || unqueued.ID != "mine" || id != "mine" || existed || !errors.Is(err, f.queue.err) {
		t.Fatalf("got %q, %t, %v, want a *QueueError with the id", id, existed, err)
	}
	if !strings.Contains(err.Error(), "job mine is stored but not queued yet") {
		t.Errorf("got %q", err)
	}
	f.queue.err = nil
	if id, existed, err := f.desk.Submit(t.Context(), j); id != "mine" || !existed || err != nil || len(f.queue.enqueued) != 1 {
		t.Errorf("again: got %q, %t, %v and %d tasks, want it queued", id, existed, err, len(f.queue.enqueued))
	}
}

// goneQueue is a queue whose caller gives up between the two steps.
type goneQueue struct {
	intake.Queue
	leave context.CancelFunc
}

func (q goneQueue) Enqueue(ctx context.Context, e queue.Envelope, to job.Queue) error {
	q.leave()
	return q.Queue.Enqueue(ctx, e, to)
}

func TestSubmitFinishesWhenItsCallerLeaves(t *testing.T) {
	t.Parallel()
	f := setup(t, intake.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	desk, err := intake.New(f.ledger, goneQueue{f.queue, cancel}, intake.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := desk.Submit(ctx, newJob("")); err != nil || len(f.queue.enqueued) != 1 {
		t.Errorf("got error %v and %d tasks, want the job queued", err, len(f.queue.enqueued))
	}
}

func TestWaitAndCancel(t *testing.T) {
	t.Parallel()
	f := setup(t, intake.Config{})
	id, _, err := f.desk.Submit(t.Context(), newJob(""))
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := f.desk.Wait(short, id); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait: got %v, want DeadlineExceeded", err)
	}
	state, err := f.desk.Cancel(t.Context(), id)
	if err != nil || state != ledger.StateCanceled || len(f.queue.removed) != 1 {
		t.Errorf("Cancel: got %s, %v, %d tasks removed", state, err, len(f.queue.removed))
	}
	long, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if r, err := f.desk.Wait(long, id); err != nil || r.Status != job.StatusCanceled {
		t.Errorf("Wait: got %s, %v, want canceled", r.Status, err)
	}
	if _, existed, err := f.desk.Submit(t.Context(), func() job.Job { j := newJob(""); j.ID = id; return j }()); err != nil || !existed {
		t.Errorf("submitting a canceled job: got existed %t, %v", existed, err)
	}
	for what, err := range map[string]error{
		"Cancel": func() error { _, err := f.desk.Cancel(t.Context(), "nobody"); return err }(),
		"Get":    func() error { _, err := f.desk.Get(t.Context(), "nobody"); return err }(),
		"Wait":   func() error { _, err := f.desk.Wait(t.Context(), "nobody"); return err }(),
		"Result": func() error { _, err := f.desk.Result(t.Context(), "no body"); return err }(),
	} {
		if !errors.Is(err, intake.ErrNotFound) {
			t.Errorf("%s: got %v, want ErrNotFound", what, err)
		}
	}
}

func TestNewRefusesBadMaxima(t *testing.T) {
	t.Parallel()
	_, err := intake.New(nil, nil, intake.Config{Maxima: job.Limits{WallMS: 1}})
	if err == nil || !strings.HasPrefix(err.Error(), "intake config: Maxima: ") {
		t.Errorf("got %v", err)
	}
}
