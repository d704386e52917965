package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
)

// TaskType is the type of every task, as asynqmon shows it.
const TaskType = "tracefleet:trace"

// ErrDuplicate means that the job has a task already that waits, runs or will be retried.
var ErrDuplicate = errors.New("the job is in the queue already")

// Producer puts jobs into the queues. It is safe for concurrent use and owns no goroutine.
type Producer struct {
	rdb    redis.UniversalClient
	client *asynq.Client
	cfg    Config
}

// NewProducer returns a Producer over rdb, which stays the caller's to close.
func NewProducer(rdb redis.UniversalClient, cfg Config) (*Producer, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("queue config: %w", err)
	}
	return &Producer{rdb: rdb, client: asynq.NewClientFromRedisClient(rdb), cfg: cfg}, nil
}

// Enqueue puts a job into the queue q and wakes a worker. What is left in asynq of an earlier task of the
// same id, archived or completed, is replaced: whether the job shall run is the ledger's to say.
// Errors: ErrDuplicate.
func (p *Producer) Enqueue(ctx context.Context, e Envelope, q job.Queue) error {
	name, err := p.cfg.Shards.name(q, e.Ahead)
	if err != nil {
		return fmt.Errorf("enqueue %s: %w", e.ID, err)
	}
	err = p.enqueue(ctx, e, name)
	if errors.Is(err, ErrDuplicate) {
		e.QueuedAt = time.Time{}
		standing, serr := p.settle(ctx, name, e, false)
		if serr != nil {
			return fmt.Errorf("enqueue %s: %w", e.ID, serr)
		}
		if standing == settledMissing {
			err = p.enqueue(ctx, e, name)
		}
	}
	if err != nil {
		return fmt.Errorf("enqueue %s: %w", e.ID, err)
	}
	p.cfg.Metrics.enqueued.WithLabelValues(string(q)).Inc()
	p.wake(ctx, name)
	return nil
}

func (p *Producer) enqueue(ctx context.Context, e Envelope, name string) error {
	payload, err := e.encode()
	if err != nil {
		return err
	}
	_, err = p.client.EnqueueContext(ctx, asynq.NewTask(TaskType, payload),
		asynq.TaskID(e.ID),
		asynq.Queue(name),
		// One more than is used: asynq archives a task at its last attempt
		// without asking whether the attempt counts, so the last attempt must not be reached.
		asynq.MaxRetry(p.cfg.MaxRetry+1),
		asynq.Timeout(p.cfg.TaskTimeout),
		asynq.Retention(p.cfg.Retention),
	)
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return ErrDuplicate
	}
	return err
}
