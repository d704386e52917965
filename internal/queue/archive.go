package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
)

// maxUnarchive is how many tasks one script removes.
const maxUnarchive = 100

// ArchivedTask is a task that asynq, or an operator in asynqmon, has archived.
type ArchivedTask struct {
	// Shard is the asynq queue that it is in.
	Shard string
	ID    string
	// At is when it was archived, to the second, by the clock of whoever did it.
	At time.Time
}

// ShardNames are the names of all asynq queues.
func (p *Producer) ShardNames() []string {
	var names []string
	for _, q := range job.Queues() {
		names = append(names, p.cfg.Shards.names(q)...)
	}
	return names
}

func archiveKey(shard string) string { return "asynq:{" + shard + "}:archived" }

// ArchiveSize is how many tasks are in the archive of a shard.
func (p *Producer) ArchiveSize(ctx context.Context, shard string) (int64, error) {
	n, err := p.rdb.ZCard(ctx, archiveKey(shard)).Result()
	if err != nil {
		return 0, fmt.Errorf("look into the archive of %s: %w", shard, err)
	}
	return n, nil
}

// Archived returns up to limit tasks from the archive of a shard that were archived at since or later, the oldest first,
// without the first skip of them.
func (p *Producer) Archived(ctx context.Context, shard string, since time.Time, skip, limit int) ([]ArchivedTask, error) {
	low := "-inf"
	if !since.IsZero() {
		low = strconv.FormatInt(since.Unix(), 10)
	}
	members, err := p.rdb.ZRangeByScoreWithScores(ctx, archiveKey(shard), &redis.ZRangeBy{
		Min: low, Max: "+inf", Offset: int64(skip), Count: int64(limit),
	}).Result()
	if err != nil {
		return nil, fmt.Errorf("read the archive of %s: %w", shard, err)
	}
	tasks := make([]ArchivedTask, 0, len(members))
	for _, m := range members {
		id, _ := m.Member.(string)
		tasks = append(tasks, ArchivedTask{Shard: shard, ID: id, At: time.Unix(int64(m.Score), 0)})
	}
	return tasks, nil
}

// unarchiveScript removes tasks that are archived: KEYS archived; ARGV prefix of a task's key, ids.
var unarchiveScript = redis.NewScript(`
local removed = 0
for i = 2, #ARGV do
	local key = ARGV[1] .. ARGV[i]
	local state = redis.call('HGET', key, 'state')
	if redis.call('ZREM', KEYS[1], ARGV[i]) == 1 and (not state or state == 'archived') then
		redis.call('DEL', key)
		removed = removed + 1
	end
end
return removed
`)

// Unarchive removes tasks from the archive of a shard, in bounded steps, and returns how many there were.
func (p *Producer) Unarchive(ctx context.Context, shard string, ids ...string) (removed int, err error) {
	for len(ids) > 0 {
		args := []any{"asynq:{" + shard + "}:t:"}
		for _, id := range ids[:min(maxUnarchive, len(ids))] {
			args = append(args, id)
		}
		ids = ids[len(args)-1:]
		n, err := unarchiveScript.Run(ctx, p.rdb, []string{archiveKey(shard)}, args...).Int()
		if err != nil {
			return removed, fmt.Errorf("remove from the archive of %s: %w", shard, err)
		}
		removed += n
	}
	return removed, nil
}

// TaskState returns the state that asynq gives to the task of a job, "" when it has none.
func (p *Producer) TaskState(ctx context.Context, e Envelope, q job.Queue) (string, error) {
	name, err := p.cfg.Shards.name(q, e.Ahead)
	if err != nil {
		return "", err
	}
	state, err := p.rdb.HGet(ctx, "asynq:{"+name+"}:t:"+e.ID, "state").Result()
	if err != nil && err != redis.Nil {
		return "", fmt.Errorf("look for the task of %s: %w", e.ID, err)
	}
	return state, nil
}

// Depth is how many tasks of a queue are in each state, over all its shards.
type Depth struct {
	Queue job.Queue
	// Tasks is keyed by asynq's names of the states: pending, active, scheduled, retry, archived, completed.
	Tasks map[string]int64
	// Oldest is how long the pending task that is delivered next has waited; 0 when none waits.
	Oldest time.Duration
}

// TaskStates are the keys of Depth.Tasks.
func TaskStates() []string {
	return []string{"pending", "active", "scheduled", "retry", "archived", "completed"}
}

// Depths counts the tasks of every queue. It costs two round trips.
func (p *Producer) Depths(ctx context.Context) ([]Depth, error) {
	shards := p.ShardNames()
	counts := make([][]*redis.IntCmd, len(shards))
	heads := make([]*redis.StringCmd, len(shards))
	_, err := p.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, shard := range shards {
			prefix := "asynq:{" + shard + "}:"
			for _, state := range TaskStates() {
				if state == "pending" || state == "active" {
					counts[i] = append(counts[i], pipe.LLen(ctx, prefix+state))
				} else {
					counts[i] = append(counts[i], pipe.ZCard(ctx, prefix+state))
				}
			}
			heads[i] = pipe.LIndex(ctx, prefix+"pending", -1)
		}
		return nil
	})
	if err != nil && err != redis.Nil {
		return nil, fmt.Errorf("count tasks: %w", err)
	}
	since := make([]*redis.IntCmd, len(shards))
	_, _ = p.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, shard := range shards {
			if id := heads[i].Val(); id != "" {
				cmd := redis.NewIntCmd(ctx, "hget", "asynq:{"+shard+"}:t:"+id, "pending_since")
				_ = pipe.Process(ctx, cmd)
				since[i] = cmd
			}
		}
		return nil
	})
	return p.sum(shards, counts, since), nil
}

// sum adds shards up to queues. A task that was run or requeued by hand does not know since when it waits.
func (p *Producer) sum(shards []string, counts [][]*redis.IntCmd, since []*redis.IntCmd) []Depth {
	var depths []Depth
	for _, q := range job.Queues() {
		d := Depth{Queue: q, Tasks: map[string]int64{}}
		for i, shard := range shards {
			if !strings.HasPrefix(shard, string(q)+":") {
				continue
			}
			for k, state := range TaskStates() {
				d.Tasks[state] += counts[i][k].Val()
			}
			if since[i] != nil && since[i].Val() > 0 {
				d.Oldest = max(d.Oldest, time.Since(time.Unix(0, since[i].Val())))
			}
		}
		depths = append(depths, d)
	}
	return depths
}
