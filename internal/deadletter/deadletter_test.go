package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execra/tracefleet/internal/deadletter"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// breaking is a queue that is away for the first calls.
type breaking struct {
	deadletter.Queue
	failures int
}

func (q *breaking) Enqueue(ctx context.Context, e queue.Envelope, to job.Queue) error {
	if q.failures--; q.failures >= 0 {
		return errors.New("away")
	}
	return q.Queue.Enqueue(ctx, e, to)
}

func setup(t *testing.T, ids ...string) (*ledger.Ledger, *queue.Producer) {
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
	for _, id := range ids {
		if _, _, err := l.Create(t.Context(), job.Job{ID: id, Files: map[string]string{"main.py": ""}}.Normalize()); err != nil {
			t.Fatal(err)
		}
		if err := l.Condemn(t.Context(), id, "engine", "it broke"); err != nil {
			t.Fatal(err)
		}
	}
	return l, p
}

func TestRequeueThatBreaksLosesNothing(t *testing.T) {
	t.Parallel()
	l, p := setup(t, "a")
	office := deadletter.New(l, &breaking{Queue: p, failures: 1})
	if err := office.Requeue(t.Context(), "a"); err == nil {
		t.Fatal("the break was not told")
	}
	// It is queued without a task, and so found by the reconciler.
	if e, err := l.Get(t.Context(), "a"); err != nil || e.State != ledger.StateQueued {
		t.Errorf("got %+v, error %v", e, err)
	}
	open, err := l.Overdue(t.Context(), 10)
	if err != nil || len(open) > 1 {
		t.Errorf("open jobs %+v, error %v", open, err)
	}
}

func TestBulk(t *testing.T) {
	t.Parallel()
	ids := make([]string, 30)
	for i := range ids {
		ids[i] = fmt.Sprint("job-", i)
	}
	l, p := setup(t, ids...)
	office := deadletter.New(l, p)
	if err := office.Purge(t.Context(), "job-3"); err != nil {
		t.Fatal(err)
	}
	start, told := time.Now(), 0
	o, err := deadletter.Bulk(t.Context(), append(ids, "none"), 100, office.Requeue, func(deadletter.Outcome) { told++ })
	if err != nil || o.Done != 29 || o.Skipped != 2 || o.Failed != 0 || told != 31 {
		t.Errorf("got %+v, told %d times, error %v", o, told, err)
	}
	if took := time.Since(start); took < 290*time.Millisecond {
		t.Errorf("31 at 100 a second took %s", took)
	}
}

func TestBulkGivesUp(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	calls := 0
	fail := func(context.Context, string) error { calls++; return away }
	o, err := deadletter.Bulk(t.Context(), make([]string, 100), 0, fail, func(deadletter.Outcome) {})
	if !errors.Is(err, away) || calls != 10 || o.Failed != 10 {
		t.Errorf("got %+v after %d calls, error %v", o, calls, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := func(context.Context, string) error { cancel(); return nil }
	if o, err := deadletter.Bulk(ctx, make([]string, 100), 1, done, func(deadletter.Outcome) {}); !errors.Is(err, context.Canceled) || o.Done != 1 {
		t.Errorf("interrupted: got %+v, error %v", o, err)
	}
}
