package ledger

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/redistest"
)

// allDue makes every open job due now.
func allDue(t *testing.T, l *Ledger) {
	t.Helper()
	for _, id := range l.rdb.ZRange(t.Context(), openKey, 0, -1).Val() {
		if err := l.rdb.ZAdd(t.Context(), openKey, redis.Z{Score: 0, Member: id}).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOverdue(t *testing.T) {
	onBoth(t, fast(), func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		ctx := t.Context()
		mustCreate(t, l, "queued")
		if open, err := l.Overdue(ctx, 10); len(open) != 0 || err != nil {
			t.Errorf("a new job is due: %+v, error %v", open, err)
		}
		allDue(t, l)
		open, err := l.Overdue(ctx, 10)
		if err != nil || len(open) != 1 || open[0].Entry.ID != "queued" || open[0].Stale || open[0].Waiting < 0 || open[0].Waiting > time.Minute {
			t.Errorf("overdue: %+v, error %v", open, err)
		}
		if open, err := l.Overdue(ctx, 10); len(open) != 0 || err != nil {
			t.Errorf("it is due again at once: %+v, error %v", open, err)
		}
		if err := l.Postpone(ctx, "queued", 0); err != nil {
			t.Fatal(err)
		}
		if open, err := l.Overdue(ctx, 10); len(open) != 1 || err != nil {
			t.Errorf("it was postponed by nothing: %+v, error %v", open, err)
		}

		// A claim makes it due when it can be stale, and not before.
		mustClaim(t, l, "queued")
		eventually(t, patience, func(ctx context.Context) (bool, string) {
			open, err := l.Overdue(ctx, 10)
			return err == nil && len(open) == 1 && open[0].Stale, fmt.Sprintf("%+v, error %v", open, err)
		})
		if n := rdb.ZCard(ctx, openKey).Val(); n != 1 {
			t.Errorf("%d open jobs, want 1", n)
		}
	})
}

func TestOverdueLeavesHeldClaimsAlone(t *testing.T) {
	onBoth(t, enduring(), func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		mustCreate(t, l, "a")
		c := mustClaim(t, l, "a")
		// It was claimed long ago, and lives by what renews it since.
		if err := rdb.HSet(t.Context(), entryKey("a"), "claimed", 1, "beat", 1).Err(); err != nil {
			t.Fatal(err)
		}
		_, stop := l.Hold(t.Context(), c)
		defer stop()
		awaitBeat(t, l, "a")
		for range 20 {
			allDue(t, l)
			if open, err := l.Overdue(t.Context(), 10); len(open) != 0 || err != nil {
				t.Fatalf("overdue: %+v, error %v", open, err)
			}
		}
	})
}

func TestOverdueRepairsTheIndexes(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		ctx := t.Context()
		for _, id := range []string{"finished", "dead"} {
			mustCreate(t, l, id)
			c := mustClaim(t, l, id)
			var err error
			if id == "dead" {
				err = l.Bury(ctx, id, c.Fence, "engine", "m", testResult(id, job.StatusSystemError))
			} else {
				err = l.Finish(ctx, id, c.Fence, testResult(id, job.StatusOK))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		// As if the worker had died right behind the script that ended the job.
		rdb.Del(ctx, deadKey)
		for _, id := range []string{"finished", "dead", "vanished"} {
			rdb.ZAdd(ctx, openKey, redis.Z{Score: 0, Member: id})
		}
		if open, err := l.Overdue(ctx, 10); len(open) != 0 || err != nil {
			t.Errorf("overdue: %+v, error %v", open, err)
		}
		if n := rdb.ZCard(ctx, openKey).Val(); n != 0 {
			t.Errorf("%d jobs are still open", n)
		}
		if dead, err := l.DeadLetters(ctx, DeadLetterFilter{}); len(dead) != 1 || err != nil {
			t.Errorf("dead letters: %+v, error %v", dead, err)
		}
	})
}

func TestOverdueIsBounded(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		for i := range 10 {
			mustCreate(t, l, fmt.Sprintf("job-%d", i))
		}
		allDue(t, l)
		seen := 0
		for _, want := range []int{4, 4, 2, 0} {
			open, err := l.Overdue(t.Context(), 4)
			if err != nil || len(open) != want {
				t.Errorf("%d jobs, error %v, want %d", len(open), err, want)
			}
			seen += len(open)
		}
		if seen != 10 {
			t.Errorf("saw %d jobs, want 10", seen)
		}
	})
}

// A Redis that is away is not taken for one that has nothing.
func TestNothingIsConcludedFromSilence(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	l := newLedger(t, server.Client(), Config{})
	bury(t, l, testJob("a"), "engine")
	server.Kill()
	for name, ask := range map[string]func() error{
		"history": func() error { _, err := l.History(t.Context(), "a"); return err },
		"entries": func() error { _, err := l.entries(t.Context(), []string{"a"}); return err },
	} {
		if err := ask(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
