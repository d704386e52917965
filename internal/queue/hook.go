package queue

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/detach"
)

const (
	// rescueTimeout bounds one acknowledgement that was saved from a canceled context.
	rescueTimeout = 5 * time.Second
	// The pause after a dequeue that was answered with an error.
	minPause = 100 * time.Millisecond
	maxPause = 5 * time.Second
)

// remedies switches the parts of the hook; only tests switch one off.
type remedies struct {
	uncancel, backOff, wake, forward, scout bool
}

// hook sits in the Redis client of asynq's server, and of nobody else, and makes good
// what asynq does wrong:
//
//   - asynq repeats a failed acknowledgement with a context that it canceled before. The hook lets scripts run all the same.
//   - asynq asks again at once when a dequeue is answered with an error. The hook pauses first.
//   - asynq polls. The hook makes it wait, when all queues are empty, for somebody to submit.
//   - asynq asks empty queues, one by one. The hook knows them, and turns the first question of a round to a queue that has tasks.
//   - asynq's forwarder asks every queue every second. The hook lets it ask where something is due.
//   - asynq's slots are not ours. While none of ours is free, the hook says that the queues are empty.
//   - asynq stores a result by a command of its own. The hook sends it with the acknowledgement.
type hook struct {
	on      remedies
	scout   *scout
	slots   *slots
	reports *reports
	stop    <-chan struct{}
	metrics *Metrics
	due     *due

	// These belong to asynq's one fetching goroutine. answered is how many questions of the round that is under way are
	// answered already.
	answered int
	pause    time.Duration
}

var _ redis.Hook = (*hook)(nil)

// DialHook changes nothing.
func (h *hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessPipelineHook changes nothing: asynq's scripts do not run in pipelines.
func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook sees every single command.
func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch {
		case isDequeue(cmd):
			return h.dequeue(ctx, cmd, next)
		case h.on.uncancel && isScript(cmd) && errors.Is(ctx.Err(), context.Canceled):
			h.metrics.rescued.Inc()
			ctx, cancel := detach.Context(ctx, rescueTimeout)
			defer cancel()
			return next(ctx, cmd)
		case isComplete(cmd):
			return h.reports.send(ctx, cmd, next)
		case h.on.forward:
			if key, ok := forwardSource(cmd); ok && !h.due.in(ctx, key) && nothing(cmd) {
				return nil
			}
		}
		return next(ctx, cmd)
	}
}

// dequeue asks the queues in the place of the one that asynq has in mind, until one has a task. asynq goes
// through its list, which always has the same order; so what it asks after an answer that all are empty is of the same round.
func (h *hook) dequeue(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	if h.answered > 0 {
		h.answered--
		return empty(cmd)
	}
	if h.begin(ctx) {
		for q := range h.scout.queues() {
			q.address(cmd)
			err := next(ctx, cmd)
			if !errors.Is(err, redis.Nil) {
				return h.taken(err)
			}
			h.scout.vain(q)
		}
		h.pause = 0
		h.scout.end()
	}
	h.answered = len(h.scout.all) - 1
	return empty(cmd)
}

// taken notes that a dequeue was answered with a task, or with an error.
func (h *hook) taken(err error) error {
	switch {
	case err == nil:
		h.pause = 0
	case redis.HasErrorPrefix(err, "NOSCRIPT"):
		// The client sends the script itself next.
	default:
		h.metrics.refused.Inc()
		if h.on.backOff {
			h.rest()
		}
	}
	return err
}

// begin waits until a task can be taken and there may be one. It tells false when none may be taken now.
func (h *hook) begin(ctx context.Context) bool {
	if h.stopped() || !h.slots.waitFree(h.stop, pollEvery) {
		return false
	}
	h.scout.begin(ctx)
	return !h.stopped()
}

// rest pauses, twice as long each time in a row.
func (h *hook) rest() {
	h.pause = min(max(2*h.pause, minPause), maxPause)
	timer := time.NewTimer(h.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-h.stop:
	}
}

func (h *hook) stopped() bool {
	select {
	case <-h.stop:
		return true
	default:
		return false
	}
}

// empty answers a dequeue as Redis answers for an empty queue.
func empty(cmd redis.Cmder) error {
	cmd.SetErr(redis.Nil)
	return redis.Nil
}

func isScript(cmd redis.Cmder) bool { return cmd.Name() == "evalsha" || cmd.Name() == "eval" }

// isDequeue knows asynq's dequeue script by its second key: EVALSHA sha 4 …:pending …:paused …:active …:lease.
func isDequeue(cmd redis.Cmder) bool {
	a := cmd.Args()
	if len(a) < 5 || !isScript(cmd) {
		return false
	}
	key, _ := a[4].(string)
	return strings.HasSuffix(key, ":paused")
}
