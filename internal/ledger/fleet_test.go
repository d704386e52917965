package ledger

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/redistest"
)

// bury makes a dead letter.
func bury(t *testing.T, l *Ledger, j job.Job, class string) {
	t.Helper()
	if _, _, err := l.Create(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	c := mustClaim(t, l, j.ID)
	if err := l.Bury(t.Context(), j.ID, c.Fence, class, "it broke", testResult(j.ID, job.StatusSystemError)); err != nil {
		t.Fatal(err)
	}
}

func tenantJob(id, tenant string, q job.Queue) job.Job {
	j := testJob(id)
	j.Tenant, j.Queue = tenant, q
	return j
}

func TestAdmissionBounds(t *testing.T) {
	cfg := Config{Admission: Admission{MaxQueueJobs: 3, MaxTenantJobs: 2}}
	onBoth(t, cfg, func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		create := func(id, tenant string) error {
			_, _, err := l.Create(t.Context(), tenantJob(id, tenant, job.QueueDefault))
			return err
		}
		full := func(err error, reason FullReason, count, limit int64) {
			t.Helper()
			var got *FullError
			if !errors.As(err, &got) || got.Reason != reason || got.Count != count || got.Limit != limit || got.RetryAfter < time.Second {
				t.Errorf("got %+v (%v), want %s with %d of %d", got, err, reason, count, limit)
			}
		}
		for _, id := range []string{"a1", "a2"} {
			if err := create(id, "a"); err != nil {
				t.Fatal(err)
			}
		}
		full(create("a3", "a"), FullTenant, 2, 2)
		if err := create("a2", "a"); err != nil {
			t.Errorf("a job that is there: %v", err)
		}
		if _, err := l.Get(t.Context(), "a3"); !errors.Is(err, ErrNotFound) {
			t.Errorf("the refused job: got %v, want ErrNotFound", err)
		}
		if err := create("b1", ""); err != nil {
			t.Fatal(err)
		}
		full(create("b2", ""), FullQueue, 3, 3)
		if _, _, err := l.Create(t.Context(), tenantJob("other", "a", job.QueueBatch)); err != nil {
			t.Errorf("another queue: %v", err)
		}
		// What ends makes room, also when it is canceled before it ran.
		if _, err := l.Cancel(t.Context(), "a1"); err != nil {
			t.Fatal(err)
		}
		if err := create("a3", "a"); err != nil {
			t.Errorf("after a cancellation: %v", err)
		}
		c := mustClaim(t, l, "a2")
		full(create("a4", "a"), FullTenant, 2, 2)
		if err := l.Finish(t.Context(), "a2", c.Fence, testResult("a2", job.StatusOK)); err != nil {
			t.Fatal(err)
		}
		if err := create("a4", "a"); err != nil {
			t.Errorf("after a result: %v", err)
		}
		if e, err := l.Get(t.Context(), "a4"); err != nil || e.Ahead != 1 {
			t.Errorf("ahead %d, error %v, want 1", e.Ahead, err)
		}
	})
}

func TestFullRedisTakesNoJobs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{MaxMemoryBytes: 20 << 20})
	rdb := server.Client()
	l := newLedger(t, rdb, Config{})
	mustCreate(t, l, "before")
	if err := rdb.SetRange(t.Context(), "ballast", 15<<20, "x").Err(); err != nil {
		t.Fatal(err)
	}
	l.memory.at = time.Time{}
	_, _, err := l.Create(t.Context(), testJob("late"))
	var full *FullError
	if !errors.As(err, &full) || full.Reason != FullMemory || full.Limit != int64(DefaultMemoryMark*float64(20<<20)) {
		t.Fatalf("got %v, want a full memory", err)
	}
	// What was accepted goes on: claims and results have the rest of the memory.
	c := mustClaim(t, l, "before")
	if err := l.Finish(t.Context(), "before", c.Fence, testResult("before", job.StatusOK)); err != nil {
		t.Error(err)
	}
	if _, _, err := l.Create(t.Context(), testJob("before")); err != nil {
		t.Errorf("a job that is there: %v", err)
	}
	rdb.Del(t.Context(), "ballast")
	l.memory.at = time.Time{}
	mustCreate(t, l, "late")
}

func TestRetryAfterFollowsTheFlow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		count, limit int64
		age, want    time.Duration
	}{
		"nothing known":      {100, 100, 0, time.Second},
		"a job every 10 s":   {100, 100, 1000 * time.Second, 10 * time.Second},
		"1000 jobs a second": {100_000, 100_000, 100 * time.Second, time.Second},
		"stuck":              {10, 10, 24 * time.Hour, time.Minute},
	} {
		if got := retryAfter(tt.count, tt.limit, tt.age); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

func TestDeadLettersAreFoundByEveryField(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		for i := range 30 {
			j := tenantJob(fmt.Sprintf("job-%02d", i), []string{"a", "b"}[i%2], job.Queues()[i%3])
			bury(t, l, j, []string{"engine", "store", "poison"}[i/10])
		}
		// The same moment for many: pages must not lose any of them.
		for i := range 30 {
			rdb.ZAdd(t.Context(), deadKey, redis.Z{Score: 1e12, Member: fmt.Sprintf("job-%02d", i)})
		}
		for name, tt := range map[string]struct {
			filter DeadLetterFilter
			want   int
		}{
			"all":             {DeadLetterFilter{}, 30},
			"class":           {DeadLetterFilter{Class: "store"}, 10},
			"tenant":          {DeadLetterFilter{Tenant: "a"}, 15},
			"queue":           {DeadLetterFilter{Queue: job.QueueBatch}, 10},
			"class and queue": {DeadLetterFilter{Class: "engine", Queue: job.QueueInteractive}, 4},
			"limit":           {DeadLetterFilter{Class: "store", Limit: 3}, 3},
			"unknown":         {DeadLetterFilter{Class: "none"}, 0},
		} {
			got, err := l.DeadLetters(t.Context(), tt.filter)
			if err != nil || len(got) != tt.want {
				t.Errorf("%s: %d dead letters, error %v, want %d", name, len(got), err, tt.want)
			}
		}
		counts, err := l.Counts(t.Context(), []string{"engine", "poison", "none"})
		if diff := cmp.Diff(map[string]int64{"engine": 10, "poison": 10, "none": 0}, counts.Dead); diff != "" || err != nil || counts.DeadTotal != 30 {
			t.Errorf("counts (-want +got), total %d, error %v:\n%s", counts.DeadTotal, err, diff)
		}
	})
}

func TestDeadLetterPagesLoseNothing(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	l := newLedger(t, rdb, Config{})
	const n = 2*deadLetterPage + 37
	for i := range n {
		id := fmt.Sprintf("job-%04d", i)
		// Written directly: a thousand burials take their time.
		rdb.HSet(t.Context(), entryKey(id), "state", "dead", "status", "system_error", "queue", "batch", "class", "engine", "digest", testJob("a").Digest())
		rdb.ZAdd(t.Context(), deadKey, redis.Z{Score: float64(1e12 + i/300), Member: id})
	}
	seen := map[string]bool{}
	for e, err := range l.EachDeadLetter(t.Context(), DeadLetterFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen[e.ID] {
			t.Fatalf("%s came twice", e.ID)
		}
		seen[e.ID] = true
	}
	if len(seen) != n {
		t.Errorf("%d dead letters, want %d", len(seen), n)
	}
}

func TestRequeueKeepsTheHistory(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		bury(t, l, testJob("a"), "engine")
		e, err := l.Requeue(t.Context(), "a")
		if err != nil || e.State != StateQueued || e.Attempts != 0 || e.Requeues != 1 || e.Class != "" {
			t.Fatalf("Requeue: %+v, error %v", e, err)
		}
		if _, err := l.Requeue(t.Context(), "a"); !errors.Is(err, ErrNotDead) {
			t.Errorf("a second Requeue: got %v, want ErrNotDead", err)
		}
		if got, err := l.DeadLetters(t.Context(), DeadLetterFilter{Class: "engine"}); err != nil || len(got) != 0 {
			t.Errorf("dead letters after Requeue: %v, error %v", got, err)
		}
		if _, err := l.Result(t.Context(), "a"); !errors.Is(err, ErrNotFinished) {
			t.Errorf("Result: got %v, want ErrNotFinished", err)
		}
		if n := rdb.ZCard(t.Context(), openKey).Val(); n != 1 {
			t.Errorf("%d open jobs, want 1", n)
		}
		c := mustClaim(t, l, "a")
		if c.Fence != 2 || c.Attempt != 1 {
			t.Errorf("claim after Requeue: %+v", c)
		}
		if err := l.Finish(t.Context(), "a", 1, testResult("a", job.StatusOK)); !errors.Is(err, ErrFenced) {
			t.Errorf("the holder from before: got %v, want ErrFenced", err)
		}
		if err := l.Finish(t.Context(), "a", c.Fence, testResult("a", job.StatusOK)); err != nil {
			t.Fatal(err)
		}
		history, err := l.History(t.Context(), "a")
		var classes []string
		for _, a := range history {
			classes = append(classes, a.Class)
		}
		if diff := cmp.Diff([]string{"engine", ClassRequeued, "ok"}, classes); diff != "" || err != nil {
			t.Errorf("history (-want +got), error %v:\n%s", err, diff)
		}
		for _, key := range rdb.Keys(t.Context(), "*").Val() {
			// -1 is a key without one, -2 no key: the indexes follow a little later, and it may have gone since it was listed.
			if ttl := rdb.PTTL(t.Context(), key).Val(); ttl == -1 {
				t.Errorf("%s has no TTL", key)
			}
		}
	})
}

func TestPurgeAndDismiss(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		mustCreate(t, l, "alive")
		if err := l.Purge(t.Context(), "alive"); !errors.Is(err, ErrNotDead) {
			t.Errorf("Purge of a living job: got %v, want ErrNotDead", err)
		}
		bury(t, l, testJob("a"), "engine")
		bury(t, l, testJob("b"), "engine")
		if err := l.Purge(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if err := l.Purge(t.Context(), "a"); !errors.Is(err, ErrNotFound) {
			t.Errorf("a second Purge: got %v, want ErrNotFound", err)
		}
		if err := l.Dismiss(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		if r, err := l.Result(t.Context(), "b"); err != nil || r.Status != job.StatusSystemError {
			t.Errorf("result of a dismissed job: %q, error %v", r.Status, err)
		}
		for _, pattern := range []string{"tf:dlq", "{tf:dlq}*", "tf:{a}*"} {
			if keys := rdb.Keys(t.Context(), pattern).Val(); len(keys) != 0 {
				t.Errorf("left: %v", keys)
			}
		}
		if _, err := l.Requeue(t.Context(), "b"); err != nil {
			t.Errorf("a dismissed job is not lost: %v", err)
		}
	})
}

func TestShelvedDeadLetterRunsAgain(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		bury(t, l, testJob("a"), "engine")
		// A late delivery of its last attempt is no wish of anybody.
		if _, err := l.Claim(t.Context(), "a", "w"); !errors.Is(err, ErrDead) || !errors.Is(err, ErrTerminal) {
			t.Fatalf("Claim of a dead letter: got %v, want ErrDead", err)
		}
		if s, err := l.Shelve(t.Context(), "a", Shelved); s != StateDead || err != nil {
			t.Errorf("Shelve: state %q, error %v", s, err)
		}
		c, err := l.Claim(t.Context(), "a", "w")
		if err != nil || c.Attempt != 1 || c.Entry.Requeues != 1 || c.Entry.State != StateRunning {
			t.Errorf("Claim of a shelved dead letter: %+v, error %v", c, err)
		}
		if got, err := l.DeadLetters(t.Context(), DeadLetterFilter{}); err != nil || len(got) != 0 {
			t.Errorf("dead letters: %v, error %v", got, err)
		}
		if s, err := l.Shelve(t.Context(), "none", Shelved); s != "" || err != nil {
			t.Errorf("Shelve of no job: state %q, error %v", s, err)
		}
	})
}

func TestClusterKeepsTheIndexes(t *testing.T) {
	t.Parallel()
	server := redistest.StartCluster(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	l := newLedger(t, rdb, Config{})
	for _, id := range []string{"a", "b"} {
		bury(t, l, testJob(id), "engine")
	}
	if _, err := l.Requeue(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if err := l.Purge(t.Context(), "b"); err != nil {
		t.Error(err)
	}
	counts, err := l.Counts(t.Context(), []string{"engine"})
	if err != nil || counts.DeadTotal != 0 || counts.Dead["engine"] != 0 || counts.Open[job.QueueDefault] != 1 {
		t.Errorf("counts %+v, error %v", counts, err)
	}
}

// Whoever asks for a result at the moment when it is stored gets it, or is told that it is not there yet.
func TestResultAtTheMomentOfItsEnd(t *testing.T) {
	t.Parallel()
	l := newLedger(t, redistest.Start(t, redistest.Options{}).Client(), Config{})
	for i := range 200 {
		id := fmt.Sprint("job-", i)
		mustCreate(t, l, id)
		c := mustClaim(t, l, id)
		finished := make(chan error, 1)
		go func() { finished <- l.Finish(t.Context(), id, c.Fence, testResult(id, job.StatusOK)) }()
		for {
			r, err := l.Result(t.Context(), id)
			if err == nil && r.Status == job.StatusOK {
				break
			}
			if !errors.Is(err, ErrNotFinished) {
				t.Fatalf("%s: status %q, error %v", id, r.Status, err)
			}
		}
		if err := <-finished; err != nil {
			t.Fatal(err)
		}
	}
}
