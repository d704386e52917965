package queue

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/execra/tracefleet/internal/job"
)

const (
	// DefaultShards is how many asynq queues each queue is spread over.
	DefaultShards = 4
	// maxQueues bounds the asynq queues in all: a worker asks each of them in turn, and asynqmon shows them all.
	maxQueues = 16
	// shardStep is how many times more jobs of one tenant a shard takes than the shard before it.
	shardStep = 8
)

// Shards spreads each queue over a fixed number of asynq queues so that one tenant's backlog delays nobody
// else. Where a job goes depends on how many open jobs its tenant had when it came: of the first 8 each goes into shard
// 0, up to the 64th into shard 1, up to the 512th into shard 2, and so on; the last shard takes the rest. Workers
// look into every shard with a share of its own, the first ones oftener. So a tenant with few jobs waits behind at
// most 8 jobs of each other tenant, however many those have. Hashing tenants over shards would not do: who
// shares a shard with a large backlog waits for all of it.
//
// All producers and workers of a fleet must use the same number.
type Shards int

// Validate tells whether the number can be used.
func (s Shards) Validate() error {
	if s < 1 || int(s)*len(job.Queues()) > maxQueues {
		return fmt.Errorf("Shards: must be 1 to %d, got %d", maxQueues/len(job.Queues()), int(s))
	}
	return nil
}

// name is the asynq queue of a job whose tenant had so many open jobs before it.
func (s Shards) name(q job.Queue, ahead int64) (string, error) {
	if !slices.Contains(job.Queues(), q) {
		return "", fmt.Errorf("unknown queue %.40q", q)
	}
	shard := 0
	for bound := int64(shardStep); shard < int(s)-1 && ahead >= bound; bound *= shardStep {
		shard++
	}
	return shardName(q, shard), nil
}

func shardName(q job.Queue, shard int) string { return string(q) + ":" + strconv.Itoa(shard) }

// names are the asynq queues of q.
func (s Shards) names(q job.Queue) []string {
	names := make([]string, s)
	for i := range names {
		names[i] = shardName(q, i)
	}
	return names
}

// weights are all asynq queues with how often each is asked first.
func (s Shards) weights() map[string]int {
	w := make(map[string]int, int(s)*len(job.Queues()))
	for _, q := range job.Queues() {
		for i, name := range s.names(q) {
			w[name] = weightOf(q) * shardWeight(i)
		}
	}
	return w
}

// shardWeight prefers the shards of those who have few jobs.
func shardWeight(shard int) int { return max(8>>(2*shard), 1) }

// weightOf is the share of the workers' attention that a queue gets while all have jobs.
func weightOf(q job.Queue) int {
	switch q {
	case job.QueueInteractive:
		return 6
	case job.QueueDefault:
		return 3
	default:
		return 1
	}
}
