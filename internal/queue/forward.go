package queue

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// asynq's forwarder runs two scripts for each queue in every interval, due tasks or not. With twelve queues and an interval of a
// second that would be the most of what an idle fleet asks of Redis. So the hook asks for all sets at once, in one
// round trip of plain commands, and lets only those scripts through that will find something.

// due remembers which sets have tasks that are due. It belongs to asynq's one forwarding goroutine.
type due struct {
	rdb  redis.UniversalClient
	keys []string
	at   time.Time
	has  map[string]bool // nil: not known, ask everywhere
}

func newDue(rdb redis.UniversalClient, weights map[string]int) *due {
	d := &due{rdb: rdb}
	for name := range weights {
		d.keys = append(d.keys, "asynq:{"+name+"}:scheduled", "asynq:{"+name+"}:retry")
	}
	return d
}

// in tells whether the set at key may have due tasks.
func (d *due) in(ctx context.Context, key string) bool {
	if time.Since(d.at) > forwardEvery/2 {
		d.look(ctx)
	}
	return d.has == nil || d.has[key]
}

func (d *due) look(ctx context.Context) {
	d.at = time.Now()
	counts := make([]*redis.StringSliceCmd, len(d.keys))
	now := strconv.FormatInt(d.at.Unix(), 10)
	_, err := d.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, key := range d.keys {
			counts[i] = pipe.ZRangeByScore(ctx, key, &redis.ZRangeBy{Min: "-inf", Max: now, Count: 1})
		}
		return nil
	})
	d.has = nil
	if err != nil {
		return
	}
	d.has = make(map[string]bool)
	for i, key := range d.keys {
		if len(counts[i].Val()) > 0 {
			d.has[key] = true
		}
	}
}

// forwardSource returns the set that asynq's forward script looks into: EVALSHA sha 2 …:retry …:pending now prefix …
func forwardSource(cmd redis.Cmder) (key string, ok bool) {
	a := cmd.Args()
	if len(a) < 5 || !isScript(cmd) {
		return "", false
	}
	from, _ := a[3].(string)
	to, _ := a[4].(string)
	return from, strings.HasSuffix(to, ":pending") && (strings.HasSuffix(from, ":retry") || strings.HasSuffix(from, ":scheduled"))
}

// nothing answers a forward as Redis answers when nothing is due. It tells false for a command of another type.
func nothing(cmd redis.Cmder) bool {
	c, ok := cmd.(*redis.Cmd)
	if ok {
		c.SetVal(int64(0))
	}
	return ok
}
