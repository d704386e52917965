package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
)

// DeadLetterFilter chooses dead letters. Zero fields choose all.
type DeadLetterFilter struct {
	Class  string
	Tenant string
	Queue  job.Queue
	// Since and Until bound the time of burial.
	Since, Until time.Time
	// Limit is how many are returned at most; 0 is 100.
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

// DeadLetters returns the dead letters that f chooses, the newest burial first. Their class and message are in the
// entries. It reads the whole stretch of time until it has enough.
func (l *Ledger) DeadLetters(ctx context.Context, f DeadLetterFilter) ([]Entry, error) {
	limit := f.Limit
	setDefault(&limit, defaultDeadLetters)
	by := &redis.ZRangeBy{Min: "-inf", Max: "+inf", Count: deadLetterPage}
	if !f.Since.IsZero() {
		by.Min = strconv.FormatInt(f.Since.UnixMilli(), 10)
	}
	if !f.Until.IsZero() {
		by.Max = strconv.FormatInt(f.Until.UnixMilli(), 10)
	}
	found := []Entry{}
	for {
		ids, err := l.rdb.ZRevRangeByScore(ctx, deadKey, by).Result()
		if err != nil {
			return nil, fmt.Errorf("list dead letters: %w", err)
		}
		entries, err := l.entries(ctx, ids)
		if err != nil {
			return nil, fmt.Errorf("list dead letters: %w", err)
		}
		for _, e := range entries {
			if f.matches(e) {
				found = append(found, e)
			}
			if len(found) == limit {
				return found, nil
			}
		}
		if len(ids) < deadLetterPage {
			return found, nil
		}
		by.Offset += deadLetterPage
	}
}

// DeadLetter returns one dead letter and its attempts.
// Errors: ErrNotFound when there is no such job or it is not dead; ErrCorrupt.
func (l *Ledger) DeadLetter(ctx context.Context, id string) (Entry, []Attempt, error) {
	e, err := l.Get(ctx, id)
	if err != nil {
		return e, nil, err
	}
	if e.State != StateDead {
		return e, nil, fmt.Errorf("dead letter %s: %w: the job is %s", id, ErrNotFound, e.State)
	}
	attempts, err := l.History(ctx, id)
	return e, attempts, err
}

// entries reads many entries in one round trip and leaves out what is not there.
func (l *Ledger) entries(ctx context.Context, ids []string) ([]Entry, error) {
	cmds := make([]*redis.MapStringStringCmd, len(ids))
	_, _ = l.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, id := range ids {
			cmds[i] = pipe.HGetAll(ctx, entryKey(id))
		}
		return nil
	})
	entries := make([]Entry, 0, len(ids))
	for i, id := range ids {
		h, err := cmds[i].Result()
		if err != nil {
			if err = reply("read", id, err); !errors.Is(err, ErrCorrupt) {
				return nil, err
			}
		}
		if len(h) > 0 {
			e, _ := parseEntry(id, h) // A damaged one is shown as far as it can be read.
			entries = append(entries, e)
		}
	}
	return entries, nil
}
