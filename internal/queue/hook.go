package queue

import (
	"context"
	"errors"
	"net"
	"slices"
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
//   - asynq fetches one task at a time. The hook fetches as many at once as there are slots, and answers from them.
//   - asynq's forwarder asks every queue every second. The hook lets it ask where something is due.
//   - asynq's slots are not ours. While none of ours is free, the hook says that the queues are empty.
//   - asynq stores a result by a command of its own. The hook sends it with the acknowledgement.
type hook struct {
	on      remedies
	scout   *scout
	slots   *slots
	reports *reports
	basket  *basket
	stop    <-chan struct{}
	metrics *Metrics
	due     *due

	// These belong to asynq's one fetching goroutine. answered is how many questions of the round that is under way are
	// answered already.
	answered int
	pause    time.Duration
}

// maxFetch bounds how many tasks are fetched at once.
const maxFetch = 16

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
			if isComplete(cmd) {
				return h.reports.send(ctx, cmd, next)
			}
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

// dequeue asks the queues in the place of the one that asynq has in mind, until there is a task. asynq goes
// through its list, which always has the same order; so what it asks after an answer that all are empty is of the same round.
func (h *hook) dequeue(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	if h.answered > 0 {
		h.answered--
		return empty(cmd)
	}
	if h.hand(cmd) {
		return nil
	}
	if h.begin(ctx) && h.basket.open() {
		defer h.basket.close()
		h.scout.round()
		for {
			choice := h.scout.choose(min(h.slots.open(), maxFetch))
			if len(choice) == 0 {
				break
			}
			if err := h.fetch(ctx, cmd, next, choice); err != nil {
				return h.refused(err)
			}
			if h.hand(cmd) {
				h.pause = 0
				return nil
			}
		}
		h.pause = 0
		h.scout.end()
	}
	h.answered = len(h.scout.all) - 1
	return empty(cmd)
}

// hand gives asynq a task out of the basket. It tells false when there is none.
func (h *hook) hand(cmd redis.Cmder) bool {
	task, ok := h.basket.take()
	if !ok {
		return false
	}
	cmd.(*redis.Cmd).SetVal(task) // isDequeue
	h.slots.given.Add(1)
	return true
}

// fetch asks some queues for a task each and puts what it gets into the basket. A queue may be among them several times.
func (h *hook) fetch(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook, choice []*shard) error {
	asked := make([]*redis.Cmd, len(choice))
	if len(choice) == 1 {
		choice[0].address(cmd.Args())
		asked[0] = cmd.(*redis.Cmd) // isDequeue
		err := next(ctx, cmd)
		cmd.SetErr(err) // as a pipeline does
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	} else if err := pipelined(ctx, h.scout.rdb, func(pipe redis.Pipeliner) {
		for i, q := range choice {
			args := slices.Clone(cmd.Args())
			q.address(args)
			asked[i] = redis.NewCmd(ctx, args...)
			_ = pipe.Process(ctx, asked[i]) // it is only put into the pipeline
		}
	}); err != nil {
		return err
	}
	var tasks []string
	var failed error
	for i, q := range choice {
		task, err := asked[i].Text()
		switch {
		case err == nil:
			tasks = append(tasks, task)
		case errors.Is(err, redis.Nil):
			h.scout.vain(q)
		default:
			failed = err
		}
	}
	if len(tasks) > 0 {
		h.basket.put(tasks)
		return nil // An error will come again.
	}
	return failed
}

// refused notes that a dequeue was answered with an error.
func (h *hook) refused(err error) error {
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		return err // The client sends the script itself next.
	}
	h.metrics.refused.Inc()
	if h.on.backOff {
		h.rest()
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

// isDequeue knows asynq's dequeue script by its second key: EVALSHA sha 4 …:pending …:paused …:active …:lease expiry prefix.
func isDequeue(cmd redis.Cmder) bool {
	a := cmd.Args()
	if _, ok := cmd.(*redis.Cmd); !ok || len(a) != 9 || !isScript(cmd) {
		return false
	}
	key, _ := a[4].(string)
	return strings.HasSuffix(key, ":paused")
}
