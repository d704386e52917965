package queue

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// reports are what asynqmon shall show of tasks that have been handled and are not acknowledged yet. Each goes to Redis in the
// round trip of its acknowledgement. It is safe for concurrent use.
type reports struct {
	rdb redis.UniversalClient // without the hook

	mu sync.Mutex
	by map[string][]byte // by the id of the task
}

// maxReports bounds the reports that wait. A task in which asynq has lost interest is never acknowledged, so when there are so
// many, most are of such tasks.
const maxReports = 1024

func newReports(rdb redis.UniversalClient) *reports {
	return &reports{rdb: rdb, by: map[string][]byte{}}
}

// put keeps the report of a task until it is acknowledged.
func (r *reports) put(id string, doc []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.by) >= maxReports {
		clear(r.by)
	}
	r.by[id] = doc
}

func (r *reports) take(id string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	doc := r.by[id]
	delete(r.by, id)
	return doc
}

// send sends an acknowledgement, and before it the report of the task, as asynq itself would store it. When Redis cannot be
// reached the report is kept for asynq's next try.
func (r *reports) send(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	key, id := completed(cmd)
	doc := r.take(id)
	if doc == nil {
		return next(ctx, cmd)
	}
	if err := pipelined(ctx, r.rdb, func(pipe redis.Pipeliner) {
		pipe.HSet(ctx, key, "result", doc)
		_ = pipe.Process(ctx, cmd) // it is only put into the pipeline
	}); err != nil {
		r.put(id, doc)
		return err
	}
	return cmd.Err()
}

// pipelined runs commands in one round trip. Each command knows its own error, but not that nothing could be sent at all:
// that is the error returned.
func pipelined(ctx context.Context, rdb redis.UniversalClient, add func(pipe redis.Pipeliner)) error {
	_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		add(pipe)
		return nil
	})
	var answer redis.Error
	if errors.As(err, &answer) {
		return nil
	}
	return err
}

// isComplete knows asynq's acknowledgement of a task that it goes on to show:
// EVALSHA sha 6 …:active …:lease …:completed …:t:id …:processed:date …:processed id …
func isComplete(cmd redis.Cmder) bool {
	a := cmd.Args()
	if len(a) < 10 || !isScript(cmd) {
		return false
	}
	key, _ := a[5].(string)
	return strings.HasSuffix(key, ":completed")
}

// completed is the key of the task that an acknowledgement is for, and its id.
func completed(cmd redis.Cmder) (key, id string) {
	a := cmd.Args()
	key, _ = a[6].(string)
	id, _ = a[9].(string)
	return key, id
}
