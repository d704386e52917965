package census

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/redistest"
	"github.com/execra/tracefleet/internal/roster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCensus(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{MaxMemoryBytes: 64 << 20})
	rdb := server.Client()
	l, err := ledger.New(rdb, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	p, err := queue.NewProducer(rdb, queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i, class := range []string{"engine", "engine", "poison", "unheard_of", ""} {
		j := job.Job{ID: fmt.Sprint("job-", i), Files: map[string]string{"main.py": ""}}.Normalize()
		e, _, err := l.Create(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		if class != "" {
			err = l.Condemn(t.Context(), j.ID, class, "it broke")
		} else {
			err = p.Enqueue(t.Context(), queue.Envelope{ID: j.ID, Ahead: e.Ahead}, j.Queue)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	worker, err := roster.Join(t.Context(), rdb, "fleet", "w", zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Leave(context.WithoutCancel(t.Context()))
	if err := worker.Offer(job.MaxLimits()); err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	c, err := New(l, p, roster.NewBoard(rdb), Config{Every: 20 * time.Millisecond, Metrics: NewMetrics(reg)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	await := func(want string, names ...string) {
		t.Helper()
		deadline := time.After(time.Minute)
		for {
			err := testutil.GatherAndCompare(reg, strings.NewReader(want), names...)
			if err == nil {
				return
			}
			select {
			case <-deadline:
				t.Fatal(err)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	await(`
# HELP tracefleet_fleet_open_jobs Jobs queued or running, by queue.
# TYPE tracefleet_fleet_open_jobs gauge
tracefleet_fleet_open_jobs{queue="batch"} 0
tracefleet_fleet_open_jobs{queue="default"} 1
tracefleet_fleet_open_jobs{queue="interactive"} 0
# HELP tracefleet_fleet_redis_up 1 when Redis answered the last count, else 0 and the other numbers of the fleet are left out.
# TYPE tracefleet_fleet_redis_up gauge
tracefleet_fleet_redis_up 1
# HELP tracefleet_fleet_workers Live workers that take jobs.
# TYPE tracefleet_fleet_workers gauge
tracefleet_fleet_workers 1
`, "tracefleet_fleet_open_jobs", "tracefleet_fleet_redis_up", "tracefleet_fleet_workers")
	for class, want := range map[string]float64{"engine": 2, "poison": 1, "other": 1, "store": 0} {
		if got := testutil.ToFloat64(c.cfg.Metrics.dead.WithLabelValues(class)); got != want {
			t.Errorf("%s: %v dead letters, want %v", class, got, want)
		}
	}
	if got := testutil.ToFloat64(c.cfg.Metrics.tasks.WithLabelValues("default", "pending")); got != 1 {
		t.Errorf("%v tasks are pending, want 1", got)
	}
	if got := testutil.ToFloat64(c.cfg.Metrics.limit); got != 64<<20 {
		t.Errorf("the limit of Redis is %v", got)
	}
	server.Kill()
	await(`
# HELP tracefleet_fleet_redis_up 1 when Redis answered the last count, else 0 and the other numbers of the fleet are left out.
# TYPE tracefleet_fleet_redis_up gauge
tracefleet_fleet_redis_up 0
`, "tracefleet_fleet_open_jobs", "tracefleet_fleet_redis_up")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := New(l, p, roster.NewBoard(rdb), Config{}); err == nil {
		t.Error("a Census without metrics was made")
	}
}
