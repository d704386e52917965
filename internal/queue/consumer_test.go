package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
)

func TestDelivery(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		p := newProducer(t, rdb, Config{})
		want := Envelope{V: EnvelopeVersion, ID: "job-1", Tenant: "", Name: "né", Bytes: 12, SHA256: strings.Repeat("a", 64)}
		if err := p.Enqueue(t.Context(), want, job.QueueDefault); err != nil {
			t.Fatal(err)
		}
		if err := p.Enqueue(t.Context(), want, job.QueueDefault); !errors.Is(err, ErrDuplicate) {
			t.Errorf("second Enqueue: got %v, want ErrDuplicate", err)
		}
		if err := p.Enqueue(t.Context(), want, "fast"); err == nil {
			t.Error("an unknown queue was taken")
		}
		got := make(chan Delivery, 1)
		consume(t, rdb, Config{}, nil, func(_ context.Context, d Delivery) (Report, error) {
			got <- d
			code := 1
			return Report{Status: job.StatusException, Headline: "ValueError: é <b> " + strings.Repeat("€", 2000), Returncode: &code}, nil
		})
		if d := <-got; d.Envelope != want || d.Corrupt != nil || d.Retried != 0 || d.MaxRetry != DefaultMaxRetry || d.LastAttempt {
			t.Errorf("got %+v", d)
		}
		awaitState(t, rdb, "job-1", "completed", patience)
		result := string(infoOf(t, rdb, "job-1").Result)
		if !strings.HasPrefix(result, `{"status":"exception","headline":"ValueError: \u00e9 <b> \u20ac`) || len(result) > maxReportBytes || !strings.Contains(result, `"returncode":1`) {
			t.Errorf("result: %d bytes, %.100s", len(result), result)
		}
		for _, c := range []byte(result) {
			if c < ' ' || c > '~' {
				t.Fatalf("result has byte %#x", c)
			}
		}
	})
}

func TestRetriesAreCountedAndEnd(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := Config{MaxRetry: 1}
		mustEnqueue(t, newProducer(t, rdb, cfg), "a")
		var got calls
		reg := prometheus.NewRegistry()
		cfg.Metrics = NewMetrics(reg)
		consume(t, rdb, cfg, nil, func(_ context.Context, d Delivery) (Report, error) {
			got.add(d)
			if d.LastAttempt {
				panic("at the disco\nsecond line")
			}
			return Report{}, Transient(errors.New("engine does not answer"), ClassEngine)
		})
		awaitState(t, rdb, "a", "archived", patience)
		deliveries := got.all()
		if len(deliveries) != 2 || deliveries[0].LastAttempt || !deliveries[1].LastAttempt || deliveries[1].Retried != 1 {
			t.Errorf("deliveries: %+v", deliveries)
		}
		if e := infoOf(t, rdb, "a").LastErr; e != "panic: panic: at the disco second line" {
			t.Errorf("last error %q", e)
		}
		if n := testutil.ToFloat64(cfg.Metrics.faults.WithLabelValues("panic")); n != 1 {
			t.Errorf("%v panics were counted", n)
		}
	})
}

func TestPermanentFaultIsArchivedAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		p := newProducer(t, rdb, Config{})
		mustEnqueue(t, p, "a")
		var got calls
		consume(t, rdb, Config{}, nil, func(_ context.Context, d Delivery) (Report, error) {
			if got.add(d) == 1 {
				return Report{}, Permanent(errors.New("image denied"))
			}
			return Report{}, nil
		})
		awaitState(t, rdb, "a", "archived", patience)
		// What asynq archived does not block the id.
		mustEnqueue(t, p, "a")
		awaitState(t, rdb, "a", "completed", patience)
		mustEnqueue(t, p, "a")
		eventually(t, patience, func() (bool, string) { n := len(got.all()); return n == 3, fmt.Sprint(n, " runs") })
		awaitState(t, rdb, "a", "completed", patience)
	})
}

func TestCorruptPayload(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		client := asynq.NewClientFromRedisClient(rdb)
		for id, task := range map[string]*asynq.Task{
			"junk":     asynq.NewTask(TaskType, []byte("\xff\x00{")),
			"other":    asynq.NewTask(TaskType, []byte(`{"v":1,"id":"not-it","tenant":"","name":"","bytes":0,"sha256":""}`)),
			"type":     asynq.NewTask("mail:send", []byte(`{"v":1,"id":"type","tenant":"","name":"","bytes":0,"sha256":""}`)),
			"version":  asynq.NewTask(TaskType, []byte(`{"v":2,"id":"version"}`)),
			"not a id": asynq.NewTask(TaskType, []byte(`{}`)),
		} {
			if _, err := client.Enqueue(task, asynq.TaskID(id), asynq.Queue(defaultShard(t)), asynq.Retention(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		var got calls
		consume(t, rdb, Config{}, nil, func(_ context.Context, d Delivery) (Report, error) {
			got.add(d)
			if !errors.Is(d.Corrupt, ErrCorrupt) {
				t.Errorf("%s: got %v, want ErrCorrupt", d.Envelope.ID, d.Corrupt)
			}
			return Report{Status: job.StatusRejected}, nil
		})
		for _, id := range []string{"junk", "other", "type", "version", "not a id"} {
			awaitState(t, rdb, id, "completed", patience)
		}
		for _, d := range got.all() {
			if d.Envelope.ID == "not a id" || d.Envelope.ID == "not-it" {
				t.Errorf("delivered: %+v", d)
			}
		}
		if n := len(got.all()); n != 4 {
			t.Errorf("%d deliveries, want 4", n)
		}
	})
}

func TestEnsure(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := t.Context()
		p := newProducer(t, rdb, Config{})
		prefix := "asynq:{" + defaultShard(t) + "}:"
		ensure := func(id string, at Presence, wantRepaired bool, wantState string) {
			t.Helper()
			repaired, err := p.Ensure(ctx, Envelope{ID: id}, job.QueueDefault, at)
			if err != nil || repaired != wantRepaired {
				t.Errorf("%s: repaired %v, error %v, want %v", id, repaired, err, wantRepaired)
			}
			if s := stateOf(t, rdb, id); s != wantState {
				t.Errorf("%s: state %q, want %q", id, s, wantState)
			}
		}
		ensure("missing", Unknown, true, "pending")
		ensure("missing", Unknown, false, "pending")
		ensure("missing", WorkerLost, false, "pending")

		// As asynq leaves a task whose worker was killed.
		activate := func(id string, lease time.Time) {
			mustEnqueue(t, p, id)
			rdb.LRem(ctx, prefix+"pending", 0, id)
			rdb.LPush(ctx, prefix+"active", id)
			rdb.HSet(ctx, prefix+"t:"+id, "state", "active")
			if !lease.IsZero() {
				rdb.ZAdd(ctx, prefix+"lease", redis.Z{Score: float64(lease.Unix()), Member: id})
			}
		}
		activate("leased", time.Now().Add(time.Hour))
		ensure("leased", Unknown, false, "active")
		ensure("leased", WorkerLost, true, "pending")
		activate("expired", time.Now().Add(-20*time.Second))
		ensure("expired", Unknown, true, "pending")
		activate("no-lease", time.Time{})
		ensure("no-lease", Unknown, true, "pending")
		if n := rdb.LLen(ctx, prefix+"active").Val() + rdb.ZCard(ctx, prefix+"lease").Val(); n != 0 {
			t.Errorf("%d entries are left in active and lease", n)
		}

		inspector := asynq.NewInspectorFromRedisClient(rdb)
		mustEnqueue(t, p, "archived")
		if err := inspector.ArchiveTask(defaultShard(t), "archived"); err != nil {
			t.Fatal(err)
		}
		ensure("archived", Unknown, true, "pending")

		// An id in a list without its hash makes asynq fail for ever.
		mustEnqueue(t, p, "no-hash")
		rdb.Del(ctx, prefix+"t:no-hash")
		ensure("no-hash", Unknown, true, "pending")

		var got calls
		consume(t, rdb, Config{}, nil, func(_ context.Context, d Delivery) (Report, error) {
			got.add(d)
			return Report{}, nil
		})
		for _, id := range []string{"missing", "leased", "expired", "no-lease", "archived", "no-hash"} {
			awaitState(t, rdb, id, "completed", patience)
		}
		if n := len(got.all()); n != 6 {
			t.Errorf("%d deliveries, want 6", n)
		}
	})
}

func TestEnsureLeavesRetriesAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		p := newProducer(t, rdb, Config{})
		mustEnqueue(t, p, "a")
		r := consume(t, rdb, Config{}, nil, func(context.Context, Delivery) (Report, error) {
			return Report{}, Transient(errors.New("down"), ClassEngine)
		})
		awaitState(t, rdb, "a", "retry", patience)
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		if repaired, err := p.Ensure(t.Context(), Envelope{ID: "a"}, job.QueueDefault, WorkerLost); repaired || err != nil {
			t.Errorf("repaired %v, error %v", repaired, err)
		}
		if err := p.Remove(t.Context(), Envelope{ID: "a"}, job.QueueDefault); err != nil {
			t.Error(err)
		}
		if s := stateOf(t, rdb, "a"); s != "" {
			t.Errorf("state %q after Remove", s)
		}
	})
}

func TestRemove(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		p := newProducer(t, rdb, Config{})
		if err := p.Remove(t.Context(), Envelope{ID: "none"}, job.QueueDefault); err != nil {
			t.Error(err)
		}
		mustEnqueue(t, p, "a")
		if err := p.Remove(t.Context(), Envelope{ID: "a"}, job.QueueDefault); err != nil {
			t.Error(err)
		}
		if s := stateOf(t, rdb, "a"); s != "" {
			t.Errorf("state %q", s)
		}
		if n := rdb.LLen(t.Context(), "asynq:{"+defaultShard(t)+"}:pending").Val(); n != 0 {
			t.Errorf("%d tasks are left", n)
		}
	})
}

func TestWakeKeyHasATTL(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		p := newProducer(t, rdb, Config{})
		for i := range wakeTokens + 10 {
			mustEnqueue(t, p, fmt.Sprintf("job-%d", i))
		}
		if n := rdb.LLen(t.Context(), wakeKey).Val(); n != wakeTokens {
			t.Errorf("%d tokens, want %d", n, wakeTokens)
		}
		if ttl := rdb.PTTL(t.Context(), wakeKey).Val(); ttl <= 0 || ttl > wakeTTL {
			t.Errorf("TTL %s", ttl)
		}
	})
}

func TestClusterCarriesJobs(t *testing.T) {
	t.Parallel()
	rdb := startCluster(t)
	p := newProducer(t, rdb, Config{})
	var got calls
	consume(t, rdb, Config{}, nil, func(_ context.Context, d Delivery) (Report, error) {
		got.add(d)
		return Report{}, nil
	})
	for i, q := range job.Queues() {
		for k := range 4 {
			e := Envelope{ID: fmt.Sprintf("job-%d-%d", i, k), Ahead: int64(100 * k)}
			if err := p.Enqueue(t.Context(), e, q); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Ensure(t.Context(), e, q, Unknown); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, patience, func() (bool, string) { n := len(got.all()); return n >= 12, fmt.Sprintf("%d jobs", n) })
}
