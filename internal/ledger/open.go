package ledger

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/detach"
)

// firstLook is how long a submitter has, after it put the id into the index, to write the
// entry and to enqueue the task, before the reconciler looks at the job.
const firstLook = 15 * time.Second

// due sets when the reconciler looks at a job that is in the index.
func (l *Ledger) due(ctx context.Context, id string, delay time.Duration) error {
	return dueScript.Run(ctx, l.rdb, []string{openKey}, id, delay.Milliseconds()).Err()
}

// unindex takes a terminal job out of the index of open jobs, together with those that end at the same time. When it
// fails, Overdue does it later.
func (l *Ledger) unindex(ctx context.Context, id string) {
	l.closing.add(id, func(ids []any) {
		ctx, cancel := detach.Context(ctx, unindexTimeout)
		defer cancel()
		_ = closeScript.Run(ctx, l.rdb, []string{openKey, openOfKey}, ids...).Err()
	})
}

const (
	// unindexTimeout bounds unindex.
	unindexTimeout = 5 * time.Second
	// maxUnindexed bounds how many jobs go at once: a script stops all of Redis.
	maxUnindexed = 100
)

// crowd does for many in one go what each of them wants: who comes while the last go is under way goes
// with the next one.
type crowd struct {
	turn chan struct{} // holds an element while a go is under way
	mu   sync.Mutex
	next *party // nil when nobody waits
}

type party struct {
	ids  []any
	done chan struct{}
}

func newCrowd() crowd { return crowd{turn: make(chan struct{}, 1)} }

// add returns when do has been called, by whoever came first, with a list that holds id.
func (c *crowd) add(id string, do func(ids []any)) {
	c.mu.Lock()
	first := c.next == nil || len(c.next.ids) >= maxUnindexed
	if first {
		c.next = &party{done: make(chan struct{})}
	}
	p := c.next
	p.ids = append(p.ids, id)
	c.mu.Unlock()
	if !first {
		<-p.done
		return
	}
	c.turn <- struct{}{}
	c.mu.Lock()
	if c.next == p {
		c.next = nil
	}
	c.mu.Unlock()
	do(p.ids)
	<-c.turn
	close(p.done)
}

// Open is a job that is not finished and was not looked at for a while.
type Open struct {
	Entry Entry
	// Stale is true when the job is running and its claim was not renewed for Config.StaleAfter.
	Stale bool
	// Waiting is how long a queued job has been queued since its creation or its last release.
	Waiting time.Duration
}

// Overdue returns up to limit jobs that are due to be looked at: queued
// ones, which may have lost their task, and running ones with a stale claim. Each comes again after firstLook
// unless Postpone or a claim says otherwise. On the way it repairs the indexes: terminal jobs and such that do not exist any
// more leave tf:open, and a dead letter whose burial was broken off enters tf:dlq.
// Entries that are damaged are returned as far as they could be read.
//
// One caller at a time should call it; more do no harm.
func (l *Ledger) Overdue(ctx context.Context, limit int) ([]Open, error) {
	got, err := takeScript.Run(ctx, l.rdb, []string{openKey}, limit, firstLook.Milliseconds()).Slice()
	if err != nil {
		return nil, reply("look for", "open jobs", err)
	}
	nowText, rest := codeOf(got)
	p := fieldParser{h: map[string]string{"now": nowText}}
	now := p.time("now")
	var ids []any
	if len(rest) > 0 {
		ids, _ = rest[0].([]any)
	}
	entries := make([]*redis.MapStringStringCmd, len(ids))
	// A pipeline may fail as a whole or in parts; each command knows its own error.
	_, _ = l.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range ids {
			entries[i] = pipe.HGetAll(ctx, entryKey(text(ids, i)))
		}
		return nil
	})
	var open []Open
	var failed error
	for i := range ids {
		o, ok, err := l.look(ctx, text(ids, i), entries[i], now)
		if err != nil {
			failed = err
		}
		if ok {
			open = append(open, o)
		}
	}
	return open, failed
}

// look judges one job of the index.
func (l *Ledger) look(ctx context.Context, id string, cmd *redis.MapStringStringCmd, now time.Time) (o Open, ok bool, err error) {
	h, err := cmd.Result()
	if err != nil {
		err = reply("look at", id, err)
		if !errors.Is(err, ErrCorrupt) {
			return Open{}, false, err
		}
	}
	if err == nil && len(h) == 0 {
		l.unindex(ctx, id)
		return Open{}, false, nil
	}
	// What is damaged is left to the worker that claims it.
	e, _ := parseEntry(id, h)
	switch {
	case e.State == StateDead:
		if err := l.index(ctx, e); err != nil {
			return Open{}, false, reply("index", id, err)
		}
		l.unindex(ctx, id)
	case e.State.Terminal():
		l.unindex(ctx, id)
	case e.State == StateRunning:
		left := e.BeatAt.Add(l.cfg.StaleAfter).Sub(now)
		if left > 0 {
			return Open{}, false, l.Postpone(ctx, id, left)
		}
		return Open{Entry: e, Stale: true}, true, nil
	default:
		p := fieldParser{h: h}
		return Open{Entry: e, Waiting: now.Sub(p.time("since"))}, true, nil
	}
	return Open{}, false, nil
}

// Postpone says when Overdue shall return a job next.
func (l *Ledger) Postpone(ctx context.Context, id string, d time.Duration) error {
	if err := l.due(ctx, id, d); err != nil {
		return reply("postpone", id, err)
	}
	return nil
}
