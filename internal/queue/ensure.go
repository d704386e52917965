package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
)

// The scripts below work on asynq's own keys, whose layout is fixed in the pinned
// version; tests compare it with what asynq itself does. All keys of one queue share a cluster slot.

// taskKeys are the keys of a task and of the lists and sets it may be in.
func taskKeys(name, id string) []string {
	prefix := "asynq:{" + name + "}:"
	return []string{
		prefix + "t:" + id, prefix + "pending", prefix + "active", prefix + "lease",
		prefix + "scheduled", prefix + "retry", prefix + "archived", prefix + "completed",
	}
}

// luaPlaced tells whether a pending task is in the list. The list is in the order of delivery, so a task that came before
// the one that is delivered next should be gone: only such a one is looked for, because that means to walk the whole list.
const luaPlaced = `
local function placed(id)
	local next = redis.call('LINDEX', KEYS[2], -1)
	if not next then return false end
	if next == id then return true end
	local queue = string.sub(KEYS[1], 1, #KEYS[1] - #id)
	local since = tonumber(redis.call('HGET', KEYS[1], 'pending_since') or '')
	local other = tonumber(redis.call('HGET', queue .. next, 'pending_since') or '')
	if since and other and since >= other then return true end
	if since and not other then return true end
	return redis.call('LPOS', KEYS[2], id) and true or false
end
`

// settleScript answers how a task stands, and clears away what blocks its id: ARGV id, lost ('1': nobody
// works on it, whatever its lease says), seconds (an archived task stays when it was archived then or later; '0': never). A lease is the time of a worker's clock; 5 s are allowed for.
//
//	present  it waits, runs, or will be retried
//	requeued it was active and nobody worked on it, or pending and not in the list: it waits now
//	missing  there is none (any more): it can be enqueued
var settleScript = redis.NewScript(luaPlaced + `
local id = ARGV[1]
local state = redis.call('HGET', KEYS[1], 'state')
local function clear()
	redis.call('LREM', KEYS[2], 0, id)
	redis.call('LREM', KEYS[3], 0, id)
	for i = 4, 8 do redis.call('ZREM', KEYS[i], id) end
	redis.call('DEL', KEYS[1])
	return 'missing'
end
if state == 'pending' then
	if placed(id) then return 'present' end
	redis.call('RPUSH', KEYS[2], id)
	return 'requeued'
end
if state == 'scheduled' and redis.call('ZSCORE', KEYS[5], id) then return 'present' end
if state == 'retry' and redis.call('ZSCORE', KEYS[6], id) then return 'present' end
if state == 'archived' and ARGV[3] ~= '0' and (tonumber(redis.call('ZSCORE', KEYS[7], id) or '') or 0) >= tonumber(ARGV[3]) then return 'present' end
if state ~= 'active' then return clear() end
local time = redis.call('TIME')
local lease = redis.call('ZSCORE', KEYS[4], id)
if lease and ARGV[2] ~= '1' and tonumber(lease) + 5 > tonumber(time[1]) then return 'present' end
redis.call('RPUSH', KEYS[2], id)
redis.call('LREM', KEYS[3], 0, id)
redis.call('ZREM', KEYS[4], id)
redis.call('HSET', KEYS[1], 'state', 'pending', 'pending_since', string.format('%.0f%06d000', time[1], time[2]))
return 'requeued'
`)

// removeScript takes away a task that nobody works on: ARGV id.
var removeScript = redis.NewScript(`
if redis.call('HGET', KEYS[1], 'state') == 'active' then return 'active' end
redis.call('LREM', KEYS[2], 0, ARGV[1])
for i = 5, 8 do redis.call('ZREM', KEYS[i], ARGV[1]) end
redis.call('DEL', KEYS[1])
return 'removed'
`)

// The answers of settleScript.
const (
	settledPresent  = "present"
	settledRequeued = "requeued"
	settledMissing  = "missing"
)

func (p *Producer) settle(ctx context.Context, name string, e Envelope, lost bool) (string, error) {
	flag, since := "0", int64(0)
	if lost {
		flag = "1"
	}
	if !e.QueuedAt.IsZero() {
		since = e.QueuedAt.Unix()
	}
	return settleScript.Run(ctx, p.rdb, taskKeys(name, e.ID), e.ID, flag, since).Text()
}

// Presence says whether a task is known to be gone from its worker.
type Presence int

// The two cases of Ensure.
const (
	// Unknown leaves an active task alone while its worker renews the lease.
	Unknown Presence = iota
	// WorkerLost takes an active task away from its worker: the ledger has done so too.
	WorkerLost
)

// Ensure sees to it that a job that shall run has a task that will be delivered, and tells
// whether it had to do something. It is for the reconciler, and safe to repeat.
func (p *Producer) Ensure(ctx context.Context, e Envelope, q job.Queue, at Presence) (repaired bool, err error) {
	name, err := p.cfg.Shards.name(q, e.Ahead)
	if err != nil {
		return false, fmt.Errorf("ensure %s: %w", e.ID, err)
	}
	standing, err := p.settle(ctx, name, e, at == WorkerLost)
	if err != nil {
		return false, fmt.Errorf("ensure %s: %w", e.ID, err)
	}
	switch standing {
	case settledPresent:
		return false, nil
	case settledMissing:
		// A task that somebody else enqueued since is as good.
		if err := p.enqueue(ctx, e, name); err != nil && !errors.Is(err, ErrDuplicate) {
			return false, fmt.Errorf("ensure %s: %w", e.ID, err)
		}
		p.cfg.Metrics.recovered.WithLabelValues("enqueued").Inc()
	case settledRequeued:
		p.cfg.Metrics.recovered.WithLabelValues("requeued").Inc()
	}
	p.wake(ctx, name)
	return true, nil
}

// Remove takes the task of a job that was canceled out of the queue, so that it costs no worker's
// time. A task that a worker has already is left to it: the ledger tells the worker.
func (p *Producer) Remove(ctx context.Context, e Envelope, q job.Queue) error {
	name, err := p.cfg.Shards.name(q, e.Ahead)
	if err != nil {
		return fmt.Errorf("remove %s: %w", e.ID, err)
	}
	if err := removeScript.Run(ctx, p.rdb, taskKeys(name, e.ID), e.ID).Err(); err != nil {
		return fmt.Errorf("remove %s: %w", e.ID, err)
	}
	return nil
}
