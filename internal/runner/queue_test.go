package runner_test

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/runner"
)

var _ queue.Handler = (*runner.Runner)(nil).Handle

// Jobs that fail, hang and meet a broken engine go through the real queue, and each ends in its result.
func TestThroughTheQueue(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.launcher.FailLaunches(fmt.Errorf("the first launch fails"))
	producer, err := queue.NewProducer(f.rdb, queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := queue.NewConsumer(f.rdb, queue.Config{Concurrency: 3}, f.runner().Handle, zaptest.NewLogger(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- consumer.Run(ctx) }()
	defer func() {
		stop()
		if err := f.await(done); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()

	want := map[string]job.Status{}
	for i := range 10 {
		for source, status := range map[string]job.Status{
			"": job.StatusOK, "#: exit 3": job.StatusExitNonzero, "#: hang": job.StatusTimeLimit,
		} {
			j := job.Job{ID: fmt.Sprintf("%s-%d", status, i), Files: map[string]string{"main.py": source}}.Normalize()
			j.Limits.WallMS = 100
			e, _, err := f.ledger.Create(ctx, j)
			if err != nil {
				t.Fatal(err)
			}
			if err := producer.Enqueue(ctx, queue.Envelope{ID: j.ID, SHA256: e.Digest, Bytes: e.InputBytes}, j.Queue); err != nil {
				t.Fatal(err)
			}
			want[j.ID] = status
		}
	}
	waiting, cancel := context.WithTimeout(ctx, 2*testTimeout)
	defer cancel()
	retried := 0
	for id, status := range want {
		r, err := f.ledger.Wait(waiting, id)
		if err != nil {
			t.Fatalf("wait for %s: %v", id, err)
		}
		if r.Status != status {
			t.Errorf("%s: got %s, want %s", id, r.Status, status)
		}
		if r.Attempt == 2 {
			retried++
		}
		if e, err := f.ledger.Get(ctx, id); err != nil || e.State != ledger.StateFinished {
			t.Errorf("%s: got state %s, %v", id, e.State, err)
		}
	}
	if retried != 1 || len(f.launcher.Jobs()) != len(want) {
		t.Errorf("%d jobs had a second attempt and %d runs were made, want 1 and %d", retried, len(f.launcher.Jobs()), len(want))
	}
}
