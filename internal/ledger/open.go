package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// firstLook is how long a submitter has, after it put the id into the index, to write the
// entry and to enqueue the task, before the reconciler looks at the job.
const firstLook = 15 * time.Second

// due sets when the reconciler looks at a job that is in the index.
func (l *Ledger) due(ctx context.Context, id string, delay time.Duration) error {
	return dueScript.Run(ctx, l.rdb, []string{openKey}, id, delay.Milliseconds()).Err()
}

// leaveOpen takes a terminal job out of the index of open jobs. When it fails, Overdue does it later.
func (l *Ledger) leaveOpen(ctx context.Context, id string) {
	l.news.ended(ctx, id)
	l.news.send(ctx)
}

// leaveOpenDead takes a dead letter out of the index of open jobs. Unlike others it may be open again by the time it is taken out:
// requeued, or revived by its task. Then it goes back, because without the index nobody would miss it.
func (l *Ledger) leaveOpenDead(ctx context.Context, id string) {
	l.leaveOpen(ctx, id)
	e, err := l.Get(ctx, id)
	if err == nil && !e.State.Terminal() {
		_, err = l.admit(ctx, id, e.Queue, e.Tenant, unbounded())
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		l.cfg.Log.Warn("see whether a dead letter is open again", zap.String("job_id", id), zap.Error(err))
	}
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
	l.news.send(ctx)
	got, err := takeScript.Run(ctx, l.rdb, []string{openKey}, limit, firstLook.Milliseconds()).Slice()
	if err != nil {
		return nil, reply("look for", "open jobs", err)
	}
	nowText, rest := codeOf(got)
	p := fieldParser{from: hash{"now": nowText}}
	now := p.time("now")
	var ids []any
	if len(rest) > 0 {
		ids, _ = rest[0].([]any)
	}
	entries := make([]*redis.SliceCmd, len(ids))
	if err := l.pipelined(ctx, func(pipe redis.Pipeliner) {
		for i := range ids {
			entries[i] = pipe.HMGet(ctx, entryKey(text(ids, i)), entryFields...)
		}
	}); err != nil {
		return nil, reply("look at", "open jobs", err)
	}
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
func (l *Ledger) look(ctx context.Context, id string, cmd *redis.SliceCmd, now time.Time) (o Open, ok bool, err error) {
	r, err := cmd.Result()
	if err != nil {
		err = reply("look at", id, err)
		if !errors.Is(err, ErrCorrupt) {
			return Open{}, false, err
		}
	}
	if err == nil && record(r).missing() {
		l.leaveOpen(ctx, id)
		return Open{}, false, nil
	}
	// What is damaged is left to the worker that claims it.
	e, _ := parseEntry(id, r)
	switch {
	case e.State == StateDead:
		if err := l.listDead(ctx, e); err != nil {
			return Open{}, false, reply("index", id, err)
		}
		l.leaveOpenDead(ctx, id)
	case e.State.Terminal():
		l.leaveOpen(ctx, id)
	case e.State == StateRunning:
		left := e.BeatAt.Add(l.cfg.StaleAfter).Sub(now)
		if left > 0 {
			return Open{}, false, l.Postpone(ctx, id, left)
		}
		return Open{Entry: e, Stale: true}, true, nil
	default:
		return Open{Entry: e, Waiting: now.Sub(e.QueuedAt)}, true, nil
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
