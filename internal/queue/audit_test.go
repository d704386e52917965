package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/redistest"
)

func inspector(rdb redis.UniversalClient) *asynq.Inspector {
	return asynq.NewInspectorFromRedisClient(rdb)
}

func TestPendingTaskThatIsNotInTheList(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		p := newProducer(t, rdb, Config{})
		list := "asynq:{" + defaultShard(t) + "}:pending"
		ensure := func(id string, want bool) {
			t.Helper()
			if repaired, err := p.Ensure(t.Context(), Envelope{ID: id}, job.QueueDefault, Unknown); repaired != want || err != nil {
				t.Errorf("%s: repaired %v, error %v, want %v", id, repaired, err, want)
			}
		}
		mustEnqueue(t, p, "lost", "next", "last")
		for _, id := range []string{"lost", "next", "last"} {
			ensure(id, false)
		}
		rdb.LRem(t.Context(), list, 0, "lost")
		ensure("last", false)
		ensure("lost", true)
		ensure("lost", false)
		// A task that was put in front by hand does not know since when it waits.
		rdb.HDel(t.Context(), "asynq:{"+defaultShard(t)+"}:t:lost", "pending_since")
		ensure("next", false)
		ensure("lost", false)
		rdb.Del(t.Context(), list)
		ensure("last", true)
		var got calls
		consume(t, rdb, Config{}, nil, func(_ context.Context, d Delivery) (Report, error) {
			got.add(d)
			return Report{}, nil
		})
		awaitState(t, rdb, "last", "completed", patience)
	})
}

func TestArchive(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		p := newProducer(t, rdb, Config{})
		shard := defaultShard(t)
		for i := range 250 {
			id := fmt.Sprintf("job-%03d", i)
			mustEnqueue(t, p, id)
			if err := inspector(rdb).ArchiveTask(shard, id); err != nil {
				t.Fatal(err)
			}
		}
		mustEnqueue(t, p, "waits")
		all, err := p.Archived(t.Context(), shard, time.Time{}, 0, 1000)
		if err != nil || len(all) != 250 || time.Since(all[0].At) > time.Minute {
			t.Fatalf("%d archived tasks, error %v, want 250", len(all), err)
		}
		if some, err := p.Archived(t.Context(), shard, time.Now().Add(time.Hour), 0, 10); err != nil || len(some) != 0 {
			t.Errorf("from the future: %v, error %v", some, err)
		}
		if page, err := p.Archived(t.Context(), shard, time.Time{}, 245, 10); err != nil || len(page) != 5 {
			t.Errorf("last page: %d, error %v, want 5", len(page), err)
		}
		ids := []string{"none", "waits"}
		for _, task := range all[:230] {
			ids = append(ids, task.ID)
		}
		if n, err := p.Unarchive(t.Context(), shard, ids...); n != 230 || err != nil {
			t.Errorf("removed %d, error %v, want 230", n, err)
		}
		if n, err := p.ArchiveSize(t.Context(), shard); n != 20 || err != nil {
			t.Errorf("%d are left, error %v, want 20", n, err)
		}
		if s := stateOf(t, rdb, "waits"); s != "pending" {
			t.Errorf("the pending task is %q", s)
		}
		if keys := rdb.Keys(t.Context(), "asynq:*:t:*").Val(); len(keys) != 21 {
			t.Errorf("%d tasks have keys, want 21", len(keys))
		}
	})
}

func TestEnsureLeavesToOthersWhatAPersonArchived(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		p := newProducer(t, rdb, Config{})
		mustEnqueue(t, p, "a")
		if err := inspector(rdb).ArchiveTask(defaultShard(t), "a"); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			queued time.Time
			want   bool
		}{{time.Now().Add(-time.Minute), false}, {time.Now().Add(time.Minute), true}} {
			repaired, err := p.Ensure(t.Context(), Envelope{ID: "a", QueuedAt: tt.queued}, job.QueueDefault, Unknown)
			if repaired != tt.want || err != nil {
				t.Errorf("queued at %s: repaired %v, error %v, want %v", tt.queued, repaired, err, tt.want)
			}
		}
	})
}

func TestDepths(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		p := newProducer(t, rdb, Config{})
		for i := range 20 {
			e := Envelope{ID: fmt.Sprint("job-", i), Ahead: int64(i)}
			if err := p.Enqueue(t.Context(), e, job.QueueBatch); err != nil {
				t.Fatal(err)
			}
		}
		if err := inspector(rdb).ArchiveTask("batch:0", "job-3"); err != nil {
			t.Fatal(err)
		}
		depths, err := p.Depths(t.Context())
		if err != nil || len(depths) != len(job.Queues()) {
			t.Fatalf("got %+v, error %v", depths, err)
		}
		for _, d := range depths {
			want := map[string]int64{"pending": 0, "active": 0, "scheduled": 0, "retry": 0, "archived": 0, "completed": 0}
			if d.Queue == job.QueueBatch {
				want["pending"], want["archived"] = 19, 1
				if d.Oldest <= 0 || d.Oldest > time.Minute {
					t.Errorf("oldest %s", d.Oldest)
				}
			}
			if diff := cmp.Diff(want, d.Tasks); diff != "" {
				t.Errorf("%s (-want +got):\n%s", d.Queue, diff)
			}
		}
	})
}

func TestAuditRepairs(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := t.Context()
		p := newProducer(t, rdb, Config{})
		prefix := "asynq:{" + defaultShard(t) + "}:"
		// What asynq leaves behind, each as research has seen it.
		rdb.LPush(ctx, prefix+"active", "no-hash")
		rdb.ZAdd(ctx, prefix+"lease", redis.Z{Score: 1, Member: "no-hash"}, redis.Z{Score: 1, Member: "lease-only"})
		rdb.ZAdd(ctx, prefix+"archived", redis.Z{Score: float64(time.Now().Unix()), Member: "no-hash-archived"})
		rdb.ZAdd(ctx, prefix+"retry", redis.Z{Score: 1e12, Member: "no-hash-retry"})
		mustEnqueue(t, p, "corpse", "orphan", "abandoned", "fine")
		if err := inspector(rdb).ArchiveTask(defaultShard(t), "corpse"); err != nil {
			t.Fatal(err)
		}
		rdb.HSet(ctx, prefix+"t:corpse", "state", "active")
		rdb.LRem(ctx, prefix+"pending", 0, "orphan")
		rdb.LRem(ctx, prefix+"pending", 0, "abandoned")
		rdb.HSet(ctx, prefix+"t:abandoned", "state", "active")
		rdb.LPush(ctx, prefix+"active", "abandoned")
		rdb.ZAdd(ctx, prefix+"lease", redis.Z{Score: float64(time.Now().Add(-time.Hour).Unix()), Member: "abandoned"})

		a := NewAuditor(p)
		total := map[Fault]int{}
		strays := map[string]string{}
		for range 5 {
			r, err := a.Step(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for f, n := range r.Repaired {
				total[f] += n
			}
			for _, s := range r.Strays {
				strays[s.ID] = s.State
			}
		}
		want := map[Fault]int{FaultActiveMissing: 1, FaultLease: 1, FaultMember: 2, FaultArchived: 1}
		if diff := cmp.Diff(want, total); diff != "" {
			t.Errorf("repairs (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{"orphan": "pending", "abandoned": "active"}, strays); diff != "" {
			t.Errorf("strays (-want +got):\n%s", diff)
		}
		if s := stateOf(t, rdb, "corpse"); s != "archived" {
			t.Errorf("the corpse is %q, want archived", s)
		}
		for _, id := range []string{"orphan", "abandoned"} {
			if removed, err := a.Forget(ctx, Stray{defaultShard(t), id, strays[id]}); !removed || err != nil {
				t.Errorf("Forget(%s): %v, %v", id, removed, err)
			}
		}
		if n := rdb.LLen(ctx, prefix+"active").Val() + rdb.ZCard(ctx, prefix+"lease").Val(); n != 0 {
			t.Errorf("%d entries are left in active and lease", n)
		}
	})
}

func TestAuditLeavesWorkAlone(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	p := newProducer(t, rdb, Config{})
	started, release := make(chan struct{}), make(chan struct{})
	consume(t, rdb, Config{Concurrency: 1}, nil, func(_ context.Context, d Delivery) (Report, error) {
		switch d.Envelope.ID {
		case "runs":
			close(started)
			<-release
		case "fails":
			return Report{}, Transient(errors.New("down"), ClassEngine)
		}
		return Report{}, nil
	})
	mustEnqueue(t, p, "done")
	awaitState(t, rdb, "done", "completed", patience)
	mustEnqueue(t, p, "fails")
	awaitState(t, rdb, "fails", "retry", patience)
	mustEnqueue(t, p, "runs")
	<-started
	for i := range 300 {
		mustEnqueue(t, p, fmt.Sprint("waits-", i))
	}
	a := NewAuditor(p)
	for range 5 {
		r, err := a.Step(t.Context())
		if err != nil || len(r.Strays) != 0 {
			t.Fatalf("strays %v, error %v", r.Strays, err)
		}
		for f, n := range r.Repaired {
			if n != 0 {
				t.Errorf("%d repairs of %s", n, f)
			}
		}
	}
	if removed, err := a.Forget(t.Context(), Stray{defaultShard(t), "runs", "active"}); removed || err != nil {
		t.Errorf("Forget of a running task: %v, %v", removed, err)
	}
	close(release)
}

func TestAuditOfACluster(t *testing.T) {
	t.Parallel()
	rdb := startCluster(t)
	p := newProducer(t, rdb, Config{})
	for i := range 5 {
		if err := p.Enqueue(t.Context(), Envelope{ID: fmt.Sprint("job-", i)}, job.Queues()[i%3]); err != nil {
			t.Fatal(err)
		}
	}
	rdb.Del(t.Context(), "asynq:{batch:0}:pending")
	a := NewAuditor(p)
	strays := 0
	for range 20 {
		r, err := a.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		strays += len(r.Strays)
	}
	if strays == 0 {
		t.Error("the stray was not found")
	}
	if _, err := p.Depths(t.Context()); err != nil {
		t.Error(err)
	}
}

// Retries come back although the hook answers most of the forwarder's questions itself; without the hook asynq asks
// 24 times a second.
func TestForwarderAsksOnlyWhereSomethingIsDue(t *testing.T) {
	t.Parallel()
	idle := func(t *testing.T, on *remedies) redis.UniversalClient {
		rdb := redistest.Start(t, redistest.Options{}).Client()
		p := newProducer(t, rdb, Config{})
		var got calls
		consume(t, rdb, Config{}, on, func(_ context.Context, d Delivery) (Report, error) {
			if got.add(d) == 1 {
				return Report{}, Transient(errors.New("gone"), ClassLost) // comes back after a second or so
			}
			return Report{}, nil
		})
		mustEnqueue(t, p, "a")
		awaitState(t, rdb, "a", "completed", patience)
		return rdb
	}
	with := evalRate(t, idle(t, allRemedies()), 3*time.Second)
	control := idle(t, &remedies{uncancel: true, backOff: true, wake: true})
	eventually(t, patience, func() (bool, string) {
		without := evalRate(t, control, 2*time.Second)
		t.Logf("scripts a second: %.1f with the hook, %.1f without", with, without)
		return without-with >= 10, fmt.Sprintf("%.1f scripts a second with the hook, %.1f without: it saves too little", with, without)
	})
}

func TestNothingIsFetchedForLostSlots(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	lost := make(chan int, 1)
	lost <- 2
	cfg := Config{Concurrency: 2, Unavailable: func() int {
		n := <-lost
		lost <- n
		return n
	}}
	var got calls
	consume(t, rdb, cfg, nil, func(_ context.Context, d Delivery) (Report, error) {
		got.add(d)
		return Report{}, nil
	})
	mustEnqueue(t, newProducer(t, rdb, cfg), "a")
	throughout(t, 2*time.Second, func() (bool, string) { return len(got.all()) == 0, "a job ran without a slot" })
	<-lost
	lost <- 1
	awaitState(t, rdb, "a", "completed", patience)
}
