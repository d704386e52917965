package queue

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Fault is one kind of damage to asynq's keys that an Auditor finds.
type Fault string

// The kinds that are repaired on the spot, because nobody has to be asked.
const (
	// FaultActiveMissing is an active task that does not exist: asynq can neither run nor remove it.
	FaultActiveMissing Fault = "active_without_task"
	// FaultLease is a lease of a task that nobody has: asynq tries to recover it for ever.
	FaultLease Fault = "lease_without_task"
	// FaultMember is a member of a set that does not exist.
	FaultMember Fault = "member_without_task"
	// FaultArchived is a task in the archive whose state says that it runs: asynq can neither run nor delete it.
	FaultArchived Fault = "archived_as_active"
)

// Faults are all kinds that an Auditor repairs itself.
func Faults() []Fault { return []Fault{FaultActiveMissing, FaultLease, FaultMember, FaultArchived} }

// Stray is a task that will never be delivered: it stands in none of the places where its state says it should,
// or is active while nobody has held its lease for long. What is to become of it is the ledger's to say: Ensure, or Forget.
type Stray struct{ Shard, ID, State string }

// AuditReport is what one step of an audit did.
type AuditReport struct {
	Repaired map[Fault]int
	Strays   []Stray
}

const (
	// auditPage bounds what one script or one scan looks at.
	auditPage = 200
	// strayAfter is how many seconds a lease must be over: asynq's own recoverer acts after 30 to 90 s.
	strayAfter = 120
)

// Auditor looks for damage to asynq's keys, a bounded piece at each step. It is for one goroutine.
type Auditor struct {
	p *Producer

	mu      sync.Mutex // scans of a cluster's nodes run at the same time
	cursors map[string]uint64
}

// NewAuditor returns an Auditor over the queues of p.
func NewAuditor(p *Producer) *Auditor { return &Auditor{p: p, cursors: map[string]uint64{}} }

// Step looks at everything that runs, and at a piece of everything else; many steps see all.
func (a *Auditor) Step(ctx context.Context) (AuditReport, error) {
	r := AuditReport{Repaired: map[Fault]int{}}
	for _, shard := range a.p.ShardNames() {
		if err := a.active(ctx, shard, &r); err != nil {
			return r, fmt.Errorf("audit %s: %w", shard, err)
		}
		if err := a.leases(ctx, shard, &r); err != nil {
			return r, fmt.Errorf("audit %s: %w", shard, err)
		}
		for _, set := range []string{"scheduled", "retry", "archived", "completed"} {
			if err := a.members(ctx, shard, set, &r); err != nil {
				return r, fmt.Errorf("audit %s: %w", shard, err)
			}
		}
	}
	if err := a.tasks(ctx, &r); err != nil {
		return r, fmt.Errorf("audit tasks: %w", err)
	}
	return r, nil
}

// activeScript: ARGV id, seconds.
var activeScript = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 0 then
	redis.call('LREM', KEYS[3], 0, ARGV[1])
	redis.call('ZREM', KEYS[4], ARGV[1])
	return 'removed'
end
local lease = redis.call('ZSCORE', KEYS[4], ARGV[1])
if lease and tonumber(lease) + ARGV[2] > tonumber(redis.call('TIME')[1]) then return 'ok' end
return 'stray'
`)

func (a *Auditor) active(ctx context.Context, shard string, r *AuditReport) error {
	ids, err := a.p.rdb.LRange(ctx, "asynq:{"+shard+"}:active", 0, auditPage-1).Result()
	if err != nil {
		return err
	}
	for _, id := range ids {
		found, err := activeScript.Run(ctx, a.p.rdb, taskKeys(shard, id), id, strayAfter).Text()
		if err != nil {
			return err
		}
		switch found {
		case "removed":
			r.Repaired[FaultActiveMissing]++
		case "stray":
			r.Strays = append(r.Strays, Stray{shard, id, "active"})
		}
	}
	return nil
}

// leaseScript: ARGV id.
var leaseScript = redis.NewScript(`
if redis.call('HGET', KEYS[1], 'state') == 'active' and redis.call('LPOS', KEYS[3], ARGV[1]) then return 0 end
return redis.call('ZREM', KEYS[4], ARGV[1])
`)

func (a *Auditor) leases(ctx context.Context, shard string, r *AuditReport) error {
	ids, err := a.p.rdb.ZRange(ctx, "asynq:{"+shard+"}:lease", 0, auditPage-1).Result()
	if err != nil {
		return err
	}
	for _, id := range ids {
		n, err := leaseScript.Run(ctx, a.p.rdb, taskKeys(shard, id), id).Int()
		if err != nil {
			return err
		}
		r.Repaired[FaultLease] += n
	}
	return nil
}

// membersScript: KEYS set, active; ARGV prefix of a task's key, '1' for the archive, ids.
var membersScript = redis.NewScript(`
local removed, mended = 0, 0
for i = 3, #ARGV do
	local key = ARGV[1] .. ARGV[i]
	local state = redis.call('HGET', key, 'state')
	if not state then
		removed = removed + redis.call('ZREM', KEYS[1], ARGV[i])
	elseif ARGV[2] == '1' and state == 'active' and redis.call('ZSCORE', KEYS[1], ARGV[i]) and not redis.call('LPOS', KEYS[2], ARGV[i]) then
		redis.call('HSET', key, 'state', 'archived')
		mended = mended + 1
	end
end
return {removed, mended}
`)

func (a *Auditor) members(ctx context.Context, shard, set string, r *AuditReport) error {
	prefix := "asynq:{" + shard + "}:"
	at := prefix + set
	pairs, next, err := a.p.rdb.ZScan(ctx, at, a.cursors[at], "", auditPage).Result()
	if err != nil {
		return err
	}
	a.cursors[at] = next
	archive := "0"
	if set == "archived" {
		archive = "1"
	}
	for len(pairs) > 0 {
		args := []any{prefix + "t:", archive}
		for len(pairs) > 1 && len(args) < auditPage {
			args, pairs = append(args, pairs[0]), pairs[2:]
		}
		got, err := membersScript.Run(ctx, a.p.rdb, []string{at, prefix + "active"}, args...).Int64Slice()
		if err != nil {
			return err
		}
		r.Repaired[FaultMember] += int(got[0])
		r.Repaired[FaultArchived] += int(got[1])
	}
	return nil
}

// placedScript tells whether a task stands where its state says: ARGV id.
var placedScript = redis.NewScript(luaPlaced + `
local state = redis.call('HGET', KEYS[1], 'state')
if not state then return '' end
if state == 'pending' then return placed(ARGV[1]) and '' or state end
if state == 'active' then return redis.call('LPOS', KEYS[3], ARGV[1]) and '' or state end
local at = ({scheduled = 5, retry = 6, archived = 7, completed = 8})[state]
if not at or redis.call('ZSCORE', KEYS[at], ARGV[1]) then return '' end
return state
`)

// tasks looks at some of all tasks.
func (a *Auditor) tasks(ctx context.Context, r *AuditReport) error {
	keys, err := a.scan(ctx)
	if err != nil {
		return err
	}
	for _, key := range keys {
		shard, id, ok := strings.Cut(strings.TrimPrefix(key, "asynq:{"), "}:t:")
		if !ok {
			continue
		}
		state, err := placedScript.Run(ctx, a.p.rdb, taskKeys(shard, id), id).Text()
		if err != nil {
			return err
		}
		if state != "" {
			r.Strays = append(r.Strays, Stray{shard, id, state})
		}
	}
	return nil
}

// scan returns the next keys of tasks, of every node of a cluster.
func (a *Auditor) scan(ctx context.Context) ([]string, error) {
	var keys []string
	next := func(ctx context.Context, node string, c redis.Cmdable) error {
		a.mu.Lock()
		cursor := a.cursors[node]
		a.mu.Unlock()
		found, cursor, err := c.Scan(ctx, cursor, "asynq:{*}:t:*", auditPage).Result()
		a.mu.Lock()
		defer a.mu.Unlock()
		if err == nil {
			a.cursors[node] = cursor
			keys = append(keys, found...)
		}
		return err
	}
	cluster, ok := a.p.rdb.(*redis.ClusterClient)
	if !ok {
		err := next(ctx, "node", a.p.rdb)
		return keys, err
	}
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		return next(ctx, "node "+node.Options().Addr, node)
	})
	return keys, err
}

// forgetScript removes a stray: ARGV id, seconds.
var forgetScript = redis.NewScript(`
if redis.call('HGET', KEYS[1], 'state') == 'active' then
	local lease = redis.call('ZSCORE', KEYS[4], ARGV[1])
	if lease and tonumber(lease) + ARGV[2] > tonumber(redis.call('TIME')[1]) then return 0 end
end
redis.call('LREM', KEYS[2], 0, ARGV[1])
redis.call('LREM', KEYS[3], 0, ARGV[1])
for i = 4, 8 do redis.call('ZREM', KEYS[i], ARGV[1]) end
return redis.call('DEL', KEYS[1])
`)

// Forget removes a stray whose job is over, unless a worker has it after all.
func (a *Auditor) Forget(ctx context.Context, s Stray) (removed bool, err error) {
	n, err := forgetScript.Run(ctx, a.p.rdb, taskKeys(s.Shard, s.ID), s.ID, strayAfter).Int()
	if err != nil {
		return false, fmt.Errorf("remove the task %s: %w", s.ID, err)
	}
	return n > 0, nil
}
