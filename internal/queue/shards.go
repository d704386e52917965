package queue

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/execra/tracefleet/internal/job"
)

const (
	// DefaultShards is how many asynq queues each queue is spread over.
	DefaultShards = 4
	// maxQueues bounds the asynq queues in all: a worker asks each of them in turn, and asynqmon shows them all.
	maxQueues = 16
)

// Shards spreads the tenants of each queue over a fixed number of asynq
// queues, so that one tenant's backlog delays only those who share its shard.
// All producers and workers of a fleet must use the same number.
type Shards int

// Validate tells whether the number can be used.
func (s Shards) Validate() error {
	if s < 1 || int(s)*len(job.Queues()) > maxQueues {
		return fmt.Errorf("shards: must be 1 to %d, got %d", maxQueues/len(job.Queues()), int(s))
	}
	return nil
}

// name is the asynq queue of a tenant. The jobs of nobody are one tenant.
func (s Shards) name(q job.Queue, tenant string) (string, error) {
	if !slices.Contains(job.Queues(), q) {
		return "", fmt.Errorf("unknown queue %.40q", q)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(tenant)) // A hash never fails.
	return shardName(q, int(h.Sum32()%uint32(s))), nil
}

func shardName(q job.Queue, shard int) string { return string(q) + ":" + strconv.Itoa(shard) }

// weights are all asynq queues with how often each is asked first.
func (s Shards) weights() map[string]int {
	w := make(map[string]int, int(s)*len(job.Queues()))
	for _, q := range job.Queues() {
		for i := range int(s) {
			w[shardName(q, i)] = weightOf(q)
		}
	}
	return w
}

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
