package queue

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// asynq asks its queues one after the other until one has a task, each with a script of its own. A fleet has
// twelve, of which most are empty. So at the start of each round the hook finds out which ones are worth asking,
// all in one round trip, and asks these, in an order by chance and weight. A worker that was woken knows it already: the token
// says where the task is.

// scoutedFor is how long a worker that is busy goes by what it saw. A task in a queue that was empty
// waits that much longer while other queues have some.
const scoutedFor = 5 * time.Millisecond

// shard is one asynq queue.
type shard struct {
	name   string
	weight int
	// keys and prefix are what asynq's dequeue script gets of it.
	keys   [4]any
	prefix any
	// full is true when it had tasks when the scout looked last.
	full bool
}

func newShard(name string, weight int) *shard {
	prefix := "asynq:{" + name + "}:"
	return &shard{
		name: name, weight: weight, prefix: prefix + "t:",
		keys: [4]any{prefix + "pending", prefix + "paused", prefix + "active", prefix + "lease"},
	}
}

// address turns the arguments of a dequeue to the queue: EVALSHA sha 4 …:pending …:paused …:active …:lease expiry prefix.
func (q *shard) address(args []any) {
	copy(args[3:7], q.keys[:])
	args[8] = q.prefix
}

// scout knows which queues to ask. It belongs to asynq's one fetching goroutine.
type scout struct {
	rdb     redis.UniversalClient
	all     []*shard
	sleeper *sleeper
	metrics *Metrics
	on      remedies

	// known is true when the queues were looked at, at the time at; otherwise all are asked.
	known bool
	at    time.Time
	// left are the queues that are worth asking in this round.
	left []*shard
	// fresh is true when all queues were looked at for this round, barren when the last such round found nothing to take.
	fresh, barren bool
}

func newScout(rdb redis.UniversalClient, weights map[string]int, s *sleeper, on remedies, m *Metrics) *scout {
	all := make([]*shard, 0, len(weights))
	for name, weight := range weights {
		all = append(all, newShard(name, weight))
	}
	return &scout{rdb: rdb, all: all, sleeper: s, on: on, metrics: m}
}

// round begins to choose.
func (s *scout) round() {
	s.left = s.left[:0]
	for _, q := range s.all {
		if q.full || !s.known {
			s.left = append(s.left, q)
		}
	}
}

// choose chooses n queues, by chance and weight, one maybe several times, among those that are worth asking in
// this round, and one when n is less. There is none when all were in vain.
func (s *scout) choose(n int) []*shard {
	n = max(n, 1)
	total := 0
	for _, q := range s.left {
		total += q.weight
	}
	if total == 0 {
		return nil
	}
	choice := make([]*shard, 0, n)
	for len(choice) < n {
		at, i := rand.IntN(total), 0
		for ; at >= s.left[i].weight; i++ {
			at -= s.left[i].weight
		}
		choice = append(choice, s.left[i])
	}
	return choice
}

// anyFull tells whether a queue is known to have had tasks.
func (s *scout) anyFull() bool {
	return s.known && slices.ContainsFunc(s.all, func(q *shard) bool { return q.full })
}

// begin starts a round. It waits for somebody to submit, for at most pollEvery, when there is nothing to do.
func (s *scout) begin(ctx context.Context) {
	if s.anyFull() && time.Since(s.at) < scoutedFor {
		s.fresh = false
		return
	}
	if !s.barren {
		s.look(ctx)
		if !s.known || s.anyFull() {
			return
		}
	}
	s.barren = false
	if !s.on.wake {
		s.look(ctx)
		return
	}
	where, woken := s.sleeper.wait(ctx)
	if woken {
		s.metrics.woken.Inc()
	}
	if where != "" {
		for _, q := range s.all {
			q.full = q.name == where
		}
		s.known, s.at, s.fresh = true, time.Now(), false
		return
	}
	s.look(ctx)
}

// look looks at all queues.
func (s *scout) look(ctx context.Context) {
	s.known, s.at, s.fresh = false, time.Now(), true
	if !s.on.scout {
		return
	}
	lengths := make([]*redis.IntCmd, len(s.all))
	_, err := s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, q := range s.all {
			lengths[i] = pipe.LLen(ctx, "asynq:{"+q.name+"}:pending")
		}
		return nil
	})
	if err != nil {
		return // Whoever asks gets the error.
	}
	s.known = true
	for i, q := range s.all {
		q.full = lengths[i].Val() > 0
	}
}

// vain notes that a queue had nothing.
func (s *scout) vain(q *shard) {
	q.full = false
	s.left = slices.DeleteFunc(s.left, func(other *shard) bool { return other == q })
}

// end ends a round in which no queue had anything. A paused queue has tasks and hands out none.
func (s *scout) end() { s.barren = s.fresh }
