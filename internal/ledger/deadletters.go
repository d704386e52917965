package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
)

// DeadLetterFilter chooses dead letters. Zero fields choose all.
type DeadLetterFilter struct {
	Class  string
	Tenant string
	Queue  job.Queue
	// Since and Until bound the time of burial.
	Since, Until time.Time
	// Limit is how many are returned at most; 0 is 100 for DeadLetters and any number for EachDeadLetter.
	Limit int
}

// defaultDeadLetters is how many dead letters are listed when the filter names no limit.
const defaultDeadLetters = 100

// deadLetterPage is how many entries are read in one round trip.
const deadLetterPage = 200

func (f DeadLetterFilter) matches(e Entry) bool {
	return e.State == StateDead &&
		(f.Class == "" || f.Class == e.Class) &&
		(f.Tenant == "" || f.Tenant == e.Tenant) &&
		(f.Queue == "" || f.Queue == e.Queue)
}

func deadClassKey(class string) string { return "{" + deadKey + "}:class:" + class }
func deadTenantKey(t string) string    { return "{" + deadKey + "}:tenant:" + t }
func deadQueueKey(q job.Queue) string  { return "{" + deadKey + "}:queue:" + string(q) }
func deadLetterKeys(e Entry) []string {
	return []string{deadKey, deadOfKey, deadClassKey(e.Class), deadTenantKey(e.Tenant), deadQueueKey(e.Queue)}
}

// listDead puts a job into the index of dead letters; unlistDead takes it out.
func (l *Ledger) listDead(ctx context.Context, e Entry) error {
	return buryScript.Run(ctx, l.rdb, deadLetterKeys(e), e.ID, e.FinishedAt.UnixMilli(), l.cfg.DeadTTL.Milliseconds(),
		e.Class+"|"+e.Tenant+"|"+string(e.Queue)).Err()
}

// listDeadByID puts a job into the index of dead letters by its id.
func (l *Ledger) listDeadByID(ctx context.Context, id string) error {
	e, err := l.Get(ctx, id)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	return l.listDead(ctx, e)
}

// unlistDead takes a job out of the index of dead letters. When it fails, whoever lists the dead letters does it later.
func (l *Ledger) unlistDead(ctx context.Context, id string) {
	_ = exhumeScript.Run(ctx, l.rdb, []string{deadKey, deadOfKey}, id).Err()
}

// DeadLetters returns the dead letters that f chooses, the newest burial first. Their class and message are in the entries.
func (l *Ledger) DeadLetters(ctx context.Context, f DeadLetterFilter) ([]Entry, error) {
	f.Limit = cmp.Or(f.Limit, defaultDeadLetters)
	found := []Entry{}
	for e, err := range l.EachDeadLetter(ctx, f) {
		if err != nil {
			return nil, err
		}
		found = append(found, e)
	}
	return found, nil
}

// EachDeadLetter yields the dead letters that f chooses, the newest burial first, reading a page at a time; an error
// ends the sequence. It walks the smallest index that f allows for. Dead letters may be requeued or purged meanwhile.
func (l *Ledger) EachDeadLetter(ctx context.Context, f DeadLetterFilter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		key, err := l.smallestIndex(ctx, f)
		if err != nil {
			yield(Entry{}, fmt.Errorf("list dead letters: %w", err))
			return
		}
		page := deadPage{key: key, max: "+inf", min: "-inf"}
		if !f.Since.IsZero() {
			page.min = strconv.FormatInt(f.Since.UnixMilli(), 10)
		}
		if !f.Until.IsZero() {
			page.max = strconv.FormatInt(f.Until.UnixMilli(), 10)
		}
		for n := 0; !page.done; {
			entries, err := l.deadLetterPage(ctx, &page)
			if err != nil {
				yield(Entry{}, fmt.Errorf("list dead letters: %w", err))
				return
			}
			for _, e := range entries {
				if !f.matches(e) {
					continue
				}
				if n++; !yield(e, nil) || n == f.Limit {
					return
				}
			}
		}
	}
}

// smallestIndex is the key of the index with the fewest members that holds all that f chooses.
func (l *Ledger) smallestIndex(ctx context.Context, f DeadLetterFilter) (string, error) {
	keys := []string{deadKey}
	if f.Class != "" {
		keys = append(keys, deadClassKey(f.Class))
	}
	if f.Tenant != "" {
		keys = append(keys, deadTenantKey(f.Tenant))
	}
	if f.Queue != "" {
		keys = append(keys, deadQueueKey(f.Queue))
	}
	best, least := deadKey, int64(-1)
	for _, key := range keys {
		n, err := l.rdb.ZCard(ctx, key).Result()
		if err != nil {
			return "", err
		}
		if least < 0 || n < least {
			best, least = key, n
		}
	}
	return best, nil
}

// deadPage is a place in an index: everything down to the score max was read, and of that score the ids in seen.
type deadPage struct {
	key, min, max string
	seen          map[string]bool
	done          bool
}

// deadLetterPage reads the next page. Ids whose job is no dead letter any more leave the index.
func (l *Ledger) deadLetterPage(ctx context.Context, p *deadPage) ([]Entry, error) {
	count := int64(deadLetterPage + len(p.seen))
	members, err := l.rdb.ZRevRangeByScoreWithScores(ctx, p.key, &redis.ZRangeBy{Min: p.min, Max: p.max, Count: count}).Result()
	if err != nil {
		return nil, err
	}
	p.done = int64(len(members)) < count
	ids := make([]string, 0, len(members))
	for _, m := range members {
		id, _ := m.Member.(string)
		if score := strconv.FormatFloat(m.Score, 'f', -1, 64); score != p.max {
			p.max, p.seen = score, map[string]bool{}
		}
		if !p.seen[id] {
			ids = append(ids, id)
		}
		if p.seen == nil {
			p.seen = map[string]bool{}
		}
		p.seen[id] = true
	}
	entries, err := l.entries(ctx, ids)
	if err != nil {
		return nil, err
	}
	dead := entries[:0]
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		if e.State == StateDead {
			there[e.ID] = true
			dead = append(dead, e)
		}
	}
	for _, id := range ids {
		if !there[id] {
			l.forget(ctx, id)
		}
	}
	return dead, nil
}

// forget takes an id out of the index that does not belong there, unless the job was buried again meanwhile.
func (l *Ledger) forget(ctx context.Context, id string) {
	l.unlistDead(ctx, id)
	if e, err := l.Get(ctx, id); err == nil && e.State == StateDead {
		_ = l.listDead(ctx, e) // Whoever buried it does the same.
	}
}

// DeadLetter returns one dead letter and its attempts.
// Errors: ErrNotFound when there is no such job; ErrNotDead; ErrCorrupt.
func (l *Ledger) DeadLetter(ctx context.Context, id string) (Entry, []Attempt, error) {
	e, err := l.Get(ctx, id)
	if err != nil {
		return e, nil, err
	}
	if e.State != StateDead {
		return e, nil, fmt.Errorf("dead letter %s: %w: it is %s", id, ErrNotDead, e.State)
	}
	attempts, err := l.History(ctx, id)
	return e, attempts, err
}

// Requeue makes a dead letter a queued job again, with its attempts counted anew and its history kept. The caller puts it into
// the queue afterwards; whoever fails to is helped by the reconciler. Bounds on open jobs do not apply.
// Errors: ErrNotFound, also when its input is gone; ErrNotDead.
func (l *Ledger) Requeue(ctx context.Context, id string) (Entry, error) {
	before, err := l.Get(ctx, id)
	switch {
	case err != nil && !errors.Is(err, ErrCorrupt):
		return Entry{}, err
	case before.State != StateDead:
		return before, fmt.Errorf("requeue %s: %w: it is %s", id, ErrNotDead, before.State)
	}
	// The index of open jobs comes first, as in Create.
	ahead, err := l.admit(ctx, id, before.Queue, before.Tenant, unbounded())
	if err != nil {
		return Entry{}, fmt.Errorf("requeue %s: %w", id, err)
	}
	got, err := requeueScript.Run(ctx, l.rdb, jobKeys(id), l.cfg.OpenTTL.Milliseconds(), ahead).Slice()
	if err != nil {
		return Entry{}, reply("requeue", id, err)
	}
	code, rest := codeOf(got)
	switch code {
	case "missing":
		return Entry{}, fmt.Errorf("requeue %s: %w", id, ErrNotFound)
	case "no input":
		l.leaveOpen(ctx, id)
		return Entry{}, fmt.Errorf("requeue %s: its input is gone: %w", id, ErrNotFound)
	case "state":
		return Entry{}, fmt.Errorf("requeue %s: %w: it is %s", id, ErrNotDead, text(rest, 0))
	}
	l.cfg.Metrics.requeued.Inc()
	// Once more: who buried it may have taken it out of the index in between.
	if _, err := l.admit(ctx, id, before.Queue, before.Tenant, unbounded()); err != nil {
		l.cfg.Log.Warn("index a job that was requeued", zap.String("job_id", id), zap.Error(err))
	}
	l.unlistDead(ctx, id)
	return parseEntry(id, entryOf(rest, 0))
}

// revived does what follows a claim that found a dead letter.
func (l *Ledger) revived(ctx context.Context, id string, r record) {
	l.cfg.Metrics.requeued.Inc()
	e, _ := parseEntry(id, r)
	// When this fails the claim is still kept alive by its holder; only the death of its worker would go unnoticed.
	if _, err := l.admit(ctx, id, e.Queue, e.Tenant, unbounded()); err != nil {
		l.cfg.Log.Warn("index a job that was revived", zap.String("job_id", id), zap.Error(err))
	}
	l.unlistDead(ctx, id)
}

// Purge removes a dead letter with its input, result and history.
// Errors: ErrNotFound; ErrNotDead.
func (l *Ledger) Purge(ctx context.Context, id string) error {
	if !job.ValidID(id) {
		return fmt.Errorf("purge %.40q: %w", id, ErrNotFound)
	}
	got, err := purgeScript.Run(ctx, l.rdb, jobKeys(id)).Slice()
	if err != nil {
		return reply("purge", id, err)
	}
	code, rest := codeOf(got)
	switch code {
	case "missing":
		l.unlistDead(ctx, id)
		return fmt.Errorf("purge %s: %w", id, ErrNotFound)
	case "state":
		return fmt.Errorf("purge %s: %w: it is %s", id, ErrNotDead, text(rest, 0))
	}
	l.cfg.Metrics.purged.Inc()
	l.unlistDead(ctx, id)
	return nil
}

// Dismiss takes a dead letter out of the list and leaves its result, until its time is over.
func (l *Ledger) Dismiss(ctx context.Context, id string) error {
	if _, err := l.Shelve(ctx, id, Unshelved); err != nil {
		return err
	}
	if err := exhumeScript.Run(ctx, l.rdb, []string{deadKey, deadOfKey}, id).Err(); err != nil {
		return reply("dismiss", id, err)
	}
	return nil
}

// Shelf says whether a dead letter's task is known to stand in the queue's archive.
type Shelf string

// The cases of Shelve.
const (
	// Shelved: it was seen there. When it is delivered later an operator has run it, and when it is gone
	// later an operator has deleted it.
	Shelved Shelf = "1"
	// Unshelved: it was taken out by the fleet.
	Unshelved Shelf = "0"
)

// Shelve notes where the task of a dead letter stands, and returns the state of the job, "" when there is
// none. Of a job that is no dead letter nothing is noted.
func (l *Ledger) Shelve(ctx context.Context, id string, s Shelf) (State, error) {
	if !job.ValidID(id) {
		return "", nil
	}
	got, err := shelveScript.Run(ctx, l.rdb, jobKeys(id), string(s)).Slice()
	if err != nil {
		return "", reply("shelve", id, err)
	}
	code, _ := codeOf(got)
	return State(code), nil
}

// Condemn makes a queued job a dead letter that nobody has tried to run.
// Errors: as Claim and Bury.
func (l *Ledger) Condemn(ctx context.Context, id, class, message string) error {
	c, err := l.Claim(ctx, id, "ledger")
	if err != nil {
		return err
	}
	r, err := l.unrun(ctx, c.Entry, job.StatusSystemError, message)
	if err != nil {
		return err
	}
	return l.Bury(ctx, id, c.Fence, class, message, r)
}

// DeadEntry is a dead letter with what is known of its task.
type DeadEntry struct {
	Entry
	// Shelved is true when the task was seen in the queue's archive, Trimmed when the fleet took it out.
	Shelved, Trimmed bool
}

// NextDeadLetters returns some of all dead letters, in no order, and where to go on; 0 is the beginning. Each is
// returned at least once in a round.
func (l *Ledger) NextDeadLetters(ctx context.Context, cursor uint64, count int64) (dead []DeadEntry, next uint64, err error) {
	pairs, next, err := l.rdb.ZScan(ctx, deadKey, cursor, "", count).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("walk through the dead letters: %w", err)
	}
	cmds := make([]*redis.SliceCmd, 0, len(pairs)/2)
	if err := l.pipelined(ctx, func(pipe redis.Pipeliner) {
		for i := 0; i < len(pairs); i += 2 {
			cmds = append(cmds, pipe.HMGet(ctx, entryKey(pairs[i]), entryFields...))
		}
	}); err != nil {
		return nil, 0, fmt.Errorf("walk through the dead letters: %w", err)
	}
	for i, cmd := range cmds {
		id := pairs[2*i]
		values, err := cmd.Result()
		if err != nil {
			return nil, 0, reply("read", id, err)
		}
		r := record(values)
		e, _ := parseEntry(id, r)
		if e.State != StateDead {
			l.forget(ctx, id)
			continue
		}
		dead = append(dead, DeadEntry{Entry: e, Shelved: r.text("shelved") == string(Shelved), Trimmed: r.text("shelved") == string(Unshelved)})
	}
	return dead, next, nil
}

// entries reads many entries in one round trip and leaves out what is not there.
func (l *Ledger) entries(ctx context.Context, ids []string) ([]Entry, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	cmds := make([]*redis.SliceCmd, len(ids))
	if err := l.pipelined(ctx, func(pipe redis.Pipeliner) {
		for i, id := range ids {
			cmds[i] = pipe.HMGet(ctx, entryKey(id), entryFields...)
		}
	}); err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(ids))
	for i, id := range ids {
		r, err := cmds[i].Result()
		if err != nil {
			if err = reply("read", id, err); !errors.Is(err, ErrCorrupt) {
				return nil, err
			}
		}
		if !record(r).missing() {
			e, _ := parseEntry(id, r) // A damaged one is shown as far as it can be read.
			entries = append(entries, e)
		}
	}
	return entries, nil
}
