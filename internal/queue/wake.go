package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/detach"
)

// Each submit pushes one token, the name of the asynq queue, onto a list, and an idle worker waits for a token: so exactly one
// worker looks there, however many there are. Tokens that nobody waits for
// are worth nothing after a while; the worst of a stale one is one look at empty queues.
const (
	wakeKey    = "tf:wake"
	wakeTokens = 64
	wakeTTL    = 10 * time.Second
	// pollEvery is how often a worker looks without having been woken: tasks
	// that asynq moves by itself (retries) push no token. It is the shortest wait that BLPOP knows in Redis 6.2 clients.
	pollEvery = time.Second
)

// wake wakes one worker for a task in the asynq queue called name. When it fails a worker notices the task within pollEvery.
func (p *Producer) wake(ctx context.Context, name string) {
	_, _ = p.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.LPush(ctx, wakeKey, name)
		pipe.LTrim(ctx, wakeKey, 0, wakeTokens-1)
		pipe.PExpire(ctx, wakeKey, wakeTTL)
		return nil
	})
}

// sleeper waits for tokens.
type sleeper struct {
	rdb redis.UniversalClient
	// queues are those that this worker asks, with their weights.
	queues map[string]int
	stop   <-chan struct{}
	wg     sync.WaitGroup
}

// wait returns when a token was there, after pollEvery, or when stop is closed. It tells whether there was a token, and the
// queue that it names; "" when it names none of those that this worker asks.
func (s *sleeper) wait(ctx context.Context) (where string, woken bool) {
	got := make(chan []string, 1)
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		// go-redis cannot break off a read; so the goroutine is left behind for up to pollEvery when stop is closed.
		ctx, cancel := detach.Context(ctx, 5*pollEvery)
		defer cancel()
		start := time.Now()
		token, err := s.rdb.BLPop(ctx, pollEvery, wakeKey).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			// Redis is away: do not hurry to ask it again.
			select {
			case <-time.After(pollEvery - time.Since(start)):
			case <-s.stop:
			}
		}
		got <- token // of a list, the key and the element
	}()
	select {
	case token := <-got:
		if len(token) != 2 {
			return "", false
		}
		if s.queues[token[1]] > 0 {
			where = token[1]
		}
		return where, true
	case <-s.stop:
		return "", false
	}
}

// close waits for what wait left behind.
func (s *sleeper) close() { s.wg.Wait() }
