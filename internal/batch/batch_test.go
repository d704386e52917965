package batch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execra/tracefleet/internal/batch"
	"github.com/execra/tracefleet/internal/intake"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fixture struct {
	*testing.T
	ledger *ledger.Ledger
	desk   *intake.Desk
	batch  *batch.Desk
}

func setup(t *testing.T, a ledger.Admission) *fixture {
	t.Helper()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	l, err := ledger.New(rdb, ledger.Config{Admission: a})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p, err := queue.NewProducer(rdb, queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	desk, err := intake.New(l, p, intake.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{T: t, ledger: l, desk: desk, batch: batch.New(l, desk)}
}

// programs yields n jobs. Every tenth has the content of the one before.
func programs(n int) batch.Source {
	return func(yield func(batch.Program, error) bool) {
		for i := range n {
			code := fmt.Sprintf("print(%d)", i-i%10/9)
			p := batch.Program{Key: fmt.Sprint("key-", i), Job: job.Job{Files: map[string]string{"main.py": code}}.Normalize()}
			if !yield(p, nil) {
				return
			}
		}
	}
}

// finish gives the open jobs of a batch a result, status by index.
func (f *fixture) finish(name string, status func(i int64) job.Status) {
	f.Helper()
	items, err := f.ledger.BatchItems(f.Context(), name, 0, 2000)
	if err != nil {
		f.Fatal(err)
	}
	for _, item := range items {
		c, err := f.ledger.Claim(f.Context(), item.ID, "w")
		if errors.Is(err, ledger.ErrTerminal) {
			continue
		}
		if err != nil {
			f.Fatal(err)
		}
		r := job.Result{Schema: job.ResultSchema, ID: item.ID, Status: status(item.Index), Encoding: job.EncodingUTF8, Headline: "<done>"}
		if err := f.ledger.Finish(f.Context(), item.ID, c.Fence, r); err != nil {
			f.Fatal(err)
		}
	}
}

func ok(int64) job.Status { return job.StatusOK }

// failing is an intake that breaks off after some jobs.
type failing struct {
	*intake.Desk
	mu    sync.Mutex
	after int
}

func (f *failing) Submit(ctx context.Context, j job.Job) (string, bool, error) {
	f.mu.Lock()
	f.after--
	broken := f.after < 0
	f.mu.Unlock()
	if broken {
		return "", false, errors.New("the connection broke")
	}
	return f.Desk.Submit(ctx, j)
}

func TestBrokenSubmissionGoesOnWithoutDoubles(t *testing.T) {
	t.Parallel()
	f := setup(t, ledger.Admission{})
	const n = 450
	b := ledger.Batch{Name: "b", Source: "test"}
	broken := batch.New(f.ledger, &failing{Desk: f.desk, after: 230})
	first, err := broken.Submit(t.Context(), b, programs(n), 4, func(batch.Progress) {})
	if err == nil || first.Done < 200 || first.Done >= n {
		t.Fatalf("got %+v, error %v, want a break", first, err)
	}
	if s, err := f.batch.Status(t.Context(), "b"); err != nil || s.Complete || s.Open != s.Items || s.Counts[batch.Missing] == 0 {
		t.Errorf("after the break: %+v, error %v", s, err)
	}
	last := batch.Progress{}
	got, err := f.batch.Submit(t.Context(), b, programs(n), 4, func(p batch.Progress) { last = p })
	if err != nil || got.Done != n || got.Existed < first.Done || last.Done != n {
		t.Errorf("got %+v, last %+v, error %v, want %d", got, last, err, n)
	}
	counts, err := f.ledger.Counts(t.Context(), nil)
	if err != nil || counts.Open[job.QueueDefault] != n {
		t.Errorf("%d jobs are open, error %v, want %d", counts.Open[job.QueueDefault], err, n)
	}
	s, err := f.batch.Status(t.Context(), "b")
	if err != nil || !s.Complete || s.Items != n || s.Counts[batch.Queued] != n {
		t.Errorf("status %+v, error %v", s, err)
	}
}

func TestSubmitWaitsForRoom(t *testing.T) {
	t.Parallel()
	f := setup(t, ledger.Admission{MaxTenantJobs: 20})
	done := make(chan error, 1)
	full := make(chan *ledger.FullError, 1)
	go func() {
		_, err := f.batch.Submit(t.Context(), ledger.Batch{Name: "b"}, programs(30), 2, func(p batch.Progress) {
			if p.Full != nil {
				select {
				case full <- p.Full:
				default:
				}
			}
		})
		done <- err
	}()
	if e := <-full; e.Limit != 20 || e.RetryAfter < time.Second {
		t.Errorf("got %+v", e)
	}
	items, err := f.ledger.BatchItems(t.Context(), "b", 0, 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		// Two are submitted at a time: one of those listed first may be the one that waits for room.
		if _, err := f.desk.Cancel(t.Context(), item.ID); err != nil && !errors.Is(err, ledger.ErrNotFound) {
			t.Error(err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestSubmitCanBeInterrupted(t *testing.T) {
	t.Parallel()
	f := setup(t, ledger.Admission{MaxTenantJobs: 5})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := f.batch.Submit(ctx, ledger.Batch{Name: "b"}, programs(30), 2, func(p batch.Progress) {
		if p.Full != nil {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestResultsComeInOrder(t *testing.T) {
	t.Parallel()
	f := setup(t, ledger.Admission{})
	const n = 40
	if _, err := f.batch.Submit(t.Context(), ledger.Batch{Name: "b"}, programs(n), 4, func(batch.Progress) {}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	next, err := f.batch.Results(t.Context(), "b", 0, false, &out, func(int64) {})
	if !errors.Is(err, batch.ErrOpen) || next != 0 || out.Len() != 0 {
		t.Errorf("of open jobs: next %d, error %v", next, err)
	}
	// The writer waits while the jobs end, the last first.
	type end struct {
		next int64
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		next, err := f.batch.Results(t.Context(), "b", 0, true, &out, func(int64) {})
		ended <- end{next, err}
	}()
	f.finish("b", ok)
	if e := <-ended; e.err != nil || e.next != n {
		t.Fatalf("next %d, error %v, want %d", e.next, e.err, n)
	}
	i := int64(0)
	for line := range strings.Lines(out.String()) {
		var l batch.Line
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Index != i || l.Key != fmt.Sprint("key-", i) || l.Status != "ok" {
			t.Fatalf("line %d: %+v, error %v", i, l, err)
		}
		i++
	}
	if !strings.Contains(out.String(), `"<done>"`) {
		t.Error("the result documents are not as they were stored")
	}
	whole := out.String()
	lines, size, err := f.batch.Check(t.Context(), "b", strings.NewReader(whole[:len(whole)-7]))
	if err != nil || lines != n-1 || !strings.HasSuffix(whole[:size], "\n") {
		t.Errorf("a file that was broken off: %d lines, %d bytes, error %v", lines, size, err)
	}
	var mismatch *batch.MismatchError
	if _, _, err := f.batch.Check(t.Context(), "b", strings.NewReader("{}\n")); !errors.As(err, &mismatch) {
		t.Errorf("another file: %v", err)
	}
}

func TestReprocessComparesAndResumes(t *testing.T) {
	t.Parallel()
	f := setup(t, ledger.Admission{})
	const n = 30
	if _, err := f.batch.Submit(t.Context(), ledger.Batch{Name: "b"}, programs(n), 4, func(batch.Progress) {}); err != nil {
		t.Fatal(err)
	}
	f.finish("b", func(i int64) job.Status {
		return []job.Status{job.StatusOK, job.StatusTimeLimit, job.StatusException}[i%3]
	})
	again := batch.Again{From: "b", Statuses: []string{"time_limit", "exception"}}
	rerun := func(d *batch.Desk) (ledger.Batch, error) {
		b, err := d.Rerun(t.Context(), again, "")
		if err != nil {
			return b, err
		}
		var gone, open int64
		_, err = d.Submit(t.Context(), b, d.Source(t.Context(), again, &gone, &open), 2, func(batch.Progress) {})
		if gone != 0 || open != 0 {
			t.Errorf("%d inputs are gone, %d open", gone, open)
		}
		return b, err
	}
	first, err := rerun(batch.New(f.ledger, &failing{Desk: f.desk, after: 7}))
	if err == nil || first.Name != "b.r1" {
		t.Fatalf("batch %q, error %v, want a break", first.Name, err)
	}
	second, err := rerun(f.batch)
	if err != nil || second.Name != "b.r1" {
		t.Fatalf("batch %q, error %v, want the one that was broken off", second.Name, err)
	}
	f.finish("b.r1", ok)
	var changes []batch.Change
	diff, err := f.batch.Compare(t.Context(), "b.r1", func(c batch.Change) { changes = append(changes, c) })
	if err != nil || diff.Same != 0 || diff.Open != 0 || len(changes) != 20 || diff.Moves[[2]string{"exception", "ok"}] != 10 {
		t.Errorf("diff %+v, %d changes, error %v", diff, len(changes), err)
	}
	if third, err := f.batch.Rerun(t.Context(), again, ""); err != nil || third.Name != "b.r2" {
		t.Errorf("batch %q, error %v, want b.r2", third.Name, err)
	}
	if _, err := f.batch.Rerun(t.Context(), batch.Again{From: "b"}, "b.r1"); err == nil {
		t.Error("another choice under the name of a batch was taken")
	}
	if _, err := f.batch.Rerun(t.Context(), batch.Again{From: "none"}, ""); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("of no batch: %v", err)
	}
}

func TestWatchFollowsABatch(t *testing.T) {
	t.Parallel()
	f := setup(t, ledger.Admission{})
	if _, err := f.batch.Submit(t.Context(), ledger.Batch{Name: "b"}, programs(600), 8, func(batch.Progress) {}); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	looked := make(chan struct{})
	ended := make(chan batch.Status, 1)
	go func() {
		s, err := f.batch.Watch(t.Context(), "b", func(batch.Status) { once.Do(func() { close(looked) }) })
		if err != nil {
			t.Error(err)
		}
		ended <- s
	}()
	<-looked
	f.finish("b", ok)
	if s := <-ended; s.Items != 600 || s.Open != 0 || s.Counts["ok"] != 600 {
		t.Errorf("got %+v", s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := f.batch.Watch(ctx, "none", func(batch.Status) {}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("of no batch: %v", err)
	}
}

func TestSurveyNamesContents(t *testing.T) {
	t.Parallel()
	n, hash, err := batch.Survey(programs(20))
	if err != nil || n != 20 || len(hash) != 8 {
		t.Fatalf("got %d, %q, %v", n, hash, err)
	}
	if _, same, _ := batch.Survey(programs(20)); same != hash {
		t.Errorf("the same input has hash %q, then %q", hash, same)
	}
	if _, other, _ := batch.Survey(programs(21)); other == hash {
		t.Error("other input has the same hash")
	}
}
