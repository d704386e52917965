package queue

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// asynq asks its queues one after the other until one has a task, each with a script of its own. A fleet has
// twelve, of which most are empty. So at the start of each round the hook finds out which ones are worth asking,
// all in one round trip, and answers for the others itself. A worker that was woken knows it already: the token says where the task is.

// scoutedFor is how long a worker that is busy goes by what it saw. A task in a queue that was empty
// waits that much longer while other queues have some.
const scoutedFor = 5 * time.Millisecond

// scout knows which queues to ask. It belongs to asynq's one fetching goroutine.
type scout struct {
	rdb     redis.UniversalClient
	names   []string
	sleeper *sleeper
	metrics *Metrics
	on      remedies

	// full holds the queues that had tasks at the time at; nil means that this is not known, and all are asked.
	full map[string]bool
	at   time.Time
	// fresh is true when all queues were looked at for this round, barren when the last such round found nothing to take.
	fresh, barren bool
}

func newScout(rdb redis.UniversalClient, weights map[string]int, s *sleeper, on remedies, m *Metrics) *scout {
	names := make([]string, 0, len(weights))
	for name := range weights {
		names = append(names, name)
	}
	return &scout{rdb: rdb, names: names, sleeper: s, on: on, metrics: m}
}

// begin starts a round. It waits for somebody to submit, for at most pollEvery, when there is nothing to do.
func (s *scout) begin(ctx context.Context) {
	if len(s.full) > 0 && time.Since(s.at) < scoutedFor {
		s.fresh = false
		return
	}
	if !s.barren {
		s.look(ctx)
		if s.full == nil || len(s.full) > 0 {
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
		s.full, s.at, s.fresh = map[string]bool{where: true}, time.Now(), false
		return
	}
	s.look(ctx)
}

// look looks at all queues.
func (s *scout) look(ctx context.Context) {
	s.full, s.at, s.fresh = nil, time.Now(), true
	if !s.on.scout {
		return
	}
	lengths := make([]*redis.IntCmd, len(s.names))
	_, err := s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, name := range s.names {
			lengths[i] = pipe.LLen(ctx, "asynq:{"+name+"}:pending")
		}
		return nil
	})
	if err != nil {
		return // Whoever asks gets the error.
	}
	s.full = make(map[string]bool)
	for i, name := range s.names {
		if lengths[i].Val() > 0 {
			s.full[name] = true
		}
	}
}

// worth tells whether the queue called name is to be asked.
func (s *scout) worth(name string) bool { return s.full == nil || s.full[name] }

// vain notes that a queue had nothing.
func (s *scout) vain(name string) { delete(s.full, name) }

// end ends a round in which no queue had anything. A paused queue has tasks and hands out none.
func (s *scout) end() { s.barren = s.fresh }
