package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
)

// Counts is how much stands in the ledger.
type Counts struct {
	// Open is how many jobs of each queue are queued or running.
	Open map[job.Queue]int64
	// Oldest is how long ago the oldest of them came.
	Oldest map[job.Queue]time.Duration
	// Dead is how many dead letters each of the classes has that were asked for, DeadTotal how many there are in all.
	Dead      map[string]int64
	DeadTotal int64
	// UsedMemoryBytes and MaxMemoryBytes are of the fullest node of Redis that has a bound; 0 when none has.
	UsedMemoryBytes, MaxMemoryBytes int64
}

// Counts counts open jobs by queue and dead letters by class. It costs two round trips, however many there are.
func (l *Ledger) Counts(ctx context.Context, classes []string) (Counts, error) {
	l.news.send(ctx)
	queues := job.Queues()
	open, oldest := make([]*redis.IntCmd, len(queues)), make([]*redis.ZSliceCmd, len(queues))
	dead := make([]*redis.IntCmd, len(classes))
	var total *redis.IntCmd
	var now *redis.TimeCmd
	_, err := l.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		now, total = pipe.Time(ctx), pipe.ZCard(ctx, deadKey)
		for i, q := range queues {
			open[i] = pipe.ZCard(ctx, openQueueKey(q))
			oldest[i] = pipe.ZRangeWithScores(ctx, openQueueKey(q), 0, 0)
		}
		for i, class := range classes {
			dead[i] = pipe.ZCard(ctx, deadClassKey(class))
		}
		return nil
	})
	if err != nil {
		return Counts{}, fmt.Errorf("count jobs: %w", err)
	}
	c := Counts{
		Open: map[job.Queue]int64{}, Oldest: map[job.Queue]time.Duration{}, Dead: map[string]int64{}, DeadTotal: total.Val(),
	}
	for i, q := range queues {
		c.Open[q] = open[i].Val()
		c.Oldest[q] = 0
		if first := oldest[i].Val(); len(first) > 0 {
			c.Oldest[q] = max(now.Val().Sub(time.UnixMilli(int64(first[0].Score))), 0)
		}
	}
	for i, class := range classes {
		c.Dead[class] = dead[i].Val()
	}
	// A Redis that does not tell of its memory has no bound that we know of.
	c.UsedMemoryBytes, c.MaxMemoryBytes, _ = askMemory(ctx, l.rdb)
	return c, nil
}
