package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
)

// The defaults of Admission.
const (
	DefaultMaxQueueJobs  = 100_000
	DefaultMaxTenantJobs = 50_000
	DefaultMemoryMark    = 0.7
)

// Admission bounds what Create takes in. A zero field has its default, a negative one is no bound.
// A fleet sets it alike for everybody who submits.
type Admission struct {
	// MaxQueueJobs is how many jobs of one queue may be open, that is queued or running.
	MaxQueueJobs int64
	// MaxTenantJobs is how many jobs of one tenant may be open in one queue. The jobs of nobody are one tenant.
	MaxTenantJobs int64
	// MemoryMark is the share of its maxmemory from which on Redis gets no new jobs: a full Redis
	// stops the whole fleet, because asynq cannot even hand out what is queued.
	MemoryMark float64
}

// unbounded is for jobs that have been let in before.
func unbounded() Admission { return Admission{MaxQueueJobs: -1, MaxTenantJobs: -1} }

func (a Admission) withDefaults() Admission {
	a.MaxQueueJobs = cmp.Or(a.MaxQueueJobs, DefaultMaxQueueJobs)
	a.MaxTenantJobs = cmp.Or(a.MaxTenantJobs, DefaultMaxTenantJobs)
	a.MemoryMark = cmp.Or(a.MemoryMark, DefaultMemoryMark)
	return a
}

// FullReason says which bound a job met.
type FullReason string

// The bounds.
const (
	FullQueue  FullReason = "queue"
	FullTenant FullReason = "tenant"
	FullMemory FullReason = "memory"
)

// FullError means that a job was refused because the fleet has enough to do. Nothing of it is stored.
type FullError struct {
	Reason FullReason
	Queue  job.Queue
	Tenant string
	// Count is how many jobs are open, Limit how many may be. For FullMemory they are bytes.
	Count, Limit int64
	// RetryAfter is when there may be room again, 1 s to 60 s: an estimate from how fast jobs have left the queue lately.
	RetryAfter time.Duration
}

// Error names the bound and the time to wait.
func (e *FullError) Error() string {
	wait := e.RetryAfter.Round(time.Second)
	switch e.Reason {
	case FullTenant:
		who := "jobs without a tenant"
		if e.Tenant != "" {
			who = "jobs of tenant " + e.Tenant
		}
		return fmt.Sprintf("queue %s holds %d %s, at most %d; try again in %s", e.Queue, e.Count, who, e.Limit, wait)
	case FullMemory:
		return fmt.Sprintf("redis uses %d MiB of memory, and takes no new jobs above %d MiB; try again in %s", e.Count>>20, e.Limit>>20, wait)
	default:
		return fmt.Sprintf("queue %s holds %d jobs, at most %d; try again in %s", e.Queue, e.Count, e.Limit, wait)
	}
}

// The bounds of RetryAfter.
const (
	minRetryAfter    = time.Second
	maxRetryAfter    = time.Minute
	memoryRetryAfter = 30 * time.Second
)

// retryAfter estimates when the hundredth part of limit jobs will have left a queue that holds count, the oldest of which
// has waited for age: what came in during age is what is there, so count jobs leave in about that time.
func retryAfter(count, limit int64, age time.Duration) time.Duration {
	leave := max(limit/100, 1)
	estimate := time.Duration(float64(age) * float64(leave) / float64(max(count, 1)))
	return min(max(estimate, minRetryAfter), maxRetryAfter)
}

// admit puts a job into the index of open jobs, so that the reconciler finds it whatever becomes of its
// submitter, unless there are too many. It returns how many jobs the tenant had open in the queue. A job that is in the index passes.
func (l *Ledger) admit(ctx context.Context, id string, q job.Queue, tenant string, a Admission) (ahead int64, err error) {
	l.news.send(ctx)
	ttl := 2 * l.cfg.OpenTTL // longer than any of the jobs that it indexes
	got, err := admitScript.Run(ctx, l.rdb, []string{openKey, openOfKey, openQueueKey(q), openTenantKey(q, tenant)},
		id, firstLook.Milliseconds(), ttl.Milliseconds(), string(q)+"|"+tenant, a.MaxQueueJobs, a.MaxTenantJobs).Slice()
	if err != nil {
		return 0, reply("index", id, err)
	}
	code, rest := codeOf(got)
	if code == "ok" {
		return number(rest, 0), nil
	}
	full := &FullError{Reason: FullReason(code), Queue: q, Tenant: tenant, Count: number(rest, 0), Limit: number(rest, 1)}
	full.RetryAfter = retryAfter(full.Count, full.Limit, time.Duration(number(rest, 2))*time.Millisecond)
	return 0, full
}

// number returns element i of an answer, which is a number or its text; 0 when it is neither.
func number(rest []any, i int) int64 {
	if i >= len(rest) {
		return 0
	}
	switch v := rest[i].(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64) // Only our own scripts' answers come here.
		return n
	}
	return 0
}

// memoryEvery is how long an answer about the memory of Redis is good for.
const memoryEvery = time.Second

// memoryGauge remembers how full Redis is.
type memoryGauge struct {
	mu   sync.Mutex
	at   time.Time
	used int64 // of the fullest node
	max  int64 // 0: no bound, or unknown
}

// refuseFull returns a *FullError when Redis is above the mark.
func (l *Ledger) refuseFull(ctx context.Context) error {
	mark := l.cfg.Admission.MemoryMark
	if mark < 0 {
		return nil
	}
	used, limit := l.memory.read(ctx, l.rdb)
	if limit <= 0 || float64(used) <= mark*float64(limit) {
		return nil
	}
	return &FullError{Reason: FullMemory, Count: used, Limit: int64(mark * float64(limit)), RetryAfter: memoryRetryAfter}
}

// read asks Redis at most once in memoryEvery. A Redis that does not tell has no bound.
func (g *memoryGauge) read(ctx context.Context, rdb redis.UniversalClient) (used, limit int64) {
	g.mu.Lock()
	used, limit = g.used, g.max
	fresh := time.Since(g.at) < memoryEvery
	if !fresh {
		g.at = time.Now() // Others go on with the old answer while this one asks.
	}
	g.mu.Unlock()
	if fresh {
		return used, limit
	}
	used, limit, err := askMemory(ctx, rdb)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		g.used, g.max = used, limit
	}
	return g.used, g.max
}

// askMemory returns the use and the bound of the fullest node that has a bound.
func askMemory(ctx context.Context, rdb redis.UniversalClient) (used, limit int64, err error) {
	infos, err := serverInfos(ctx, rdb, "memory")
	if err != nil {
		return 0, 0, err
	}
	share := -1.0
	for _, info := range infos {
		u, err1 := strconv.ParseInt(info["used_memory"], 10, 64)
		m, err2 := strconv.ParseInt(info["maxmemory"], 10, 64)
		if errors.Join(err1, err2) != nil || m <= 0 {
			continue
		}
		if s := float64(u) / float64(m); s > share {
			share, used, limit = s, u, m
		}
	}
	return used, limit, nil
}
