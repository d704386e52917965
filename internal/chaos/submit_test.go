package chaos_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/intake"
)

// submitter hands jobs in, as a caller that wants each of them accepted: whatever goes wrong, it submits the job again
// under the same id.
type submitter struct {
	desk *intake.Desk
	// quota is filled with how many more jobs may be submitted.
	quota chan struct{}

	refusals, failures atomic.Int64
	mu                 sync.Mutex
	accepted           []task
}

// run submits the tasks, each as soon as the quota allows, and returns when all are accepted or ctx ends.
func (s *submitter) run(ctx context.Context, tasks []task) {
	for _, k := range tasks {
		select {
		case <-s.quota:
		case <-ctx.Done():
			return
		}
		for !s.submit(ctx, k) {
			pause(ctx, 300*time.Millisecond)
			if ctx.Err() != nil {
				return
			}
		}
		s.mu.Lock()
		s.accepted = append(s.accepted, k)
		s.mu.Unlock()
	}
}

// submit tells whether the job was accepted: stored is accepted, also when it could not be queued.
func (s *submitter) submit(ctx context.Context, k task) bool {
	_, _, err := s.desk.Submit(ctx, k.job)
	var full *intake.FullError
	var unqueued *intake.QueueError
	switch {
	case err == nil, errors.As(err, &unqueued):
		return true
	case errors.As(err, &full):
		s.refusals.Add(1)
	default:
		s.failures.Add(1)
	}
	return false
}

// tasks are those accepted so far.
func (s *submitter) tasks() []task {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted[:len(s.accepted):len(s.accepted)]
}

// listener counts how often the fleet says of each job that it has ended.
type listener struct {
	mu    sync.Mutex
	ended map[string]int
}

// run listens until ctx ends. What is said while Redis is away is not heard.
func (l *listener) run(ctx context.Context, rdb redis.UniversalClient) {
	subscription := rdb.Subscribe(ctx, "tf:done")
	defer func() { _ = subscription.Close() }()
	messages := subscription.Channel()
	for {
		select {
		case m, ok := <-messages:
			if !ok {
				return
			}
			l.mu.Lock()
			l.ended[m.Payload]++
			l.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// times is how often it was said of a job that it has ended.
func (l *listener) times(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended[id]
}
