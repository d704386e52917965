package queue

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onBoth runs a test on a real Redis and on the embedded one.
func onBoth(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Start(t, redistest.Options{}).Client())
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Client(t, miniredis.RunT(t).Addr()))
	})
}

func newProducer(t testing.TB, rdb redis.UniversalClient, cfg Config) *Producer {
	t.Helper()
	p, err := NewProducer(rdb, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustEnqueue(t testing.TB, p *Producer, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := p.Enqueue(t.Context(), Envelope{ID: id}, job.QueueDefault); err != nil {
			t.Fatal(err)
		}
	}
}

// running is a consumer that runs.
type running struct {
	*Consumer
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid when done is closed
}

// stop ends the consumer and returns what Run returned.
func (r *running) stop() error {
	r.cancel()
	<-r.done
	return r.err
}

// consume starts a consumer that ends with the test. on may be nil.
func consume(t testing.TB, rdb redis.UniversalClient, cfg Config, on *remedies, handler Handler) *running {
	t.Helper()
	c, err := NewConsumer(rdb, cfg, handler, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if on != nil {
		c.on = *on
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Consumer: c, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = c.Run(ctx)
	}()
	t.Cleanup(func() { _ = r.stop() })
	return r
}

// calls remembers the deliveries that a handler got.
type calls struct {
	mu  sync.Mutex
	got []Delivery
}

func (c *calls) add(d Delivery) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, d)
	return len(c.got)
}

func (c *calls) all() []Delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Delivery(nil), c.got...)
}

// patience bounds what must happen in the end, also on a machine that is busy with other things.
const patience = time.Minute

// eventually polls until ok, and fails with what it last said.
func eventually(t testing.TB, within time.Duration, ok func() (bool, string)) {
	t.Helper()
	timeout := time.After(within)
	for {
		done, last := ok()
		if done {
			return
		}
		select {
		case <-timeout:
			t.Fatalf("not within %s: %s", within, last)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// throughout polls for a while and fails when ok stops to hold.
func throughout(t testing.TB, d time.Duration, ok func() (bool, string)) {
	t.Helper()
	if held, last := lasts(d, ok); !held {
		t.Fatal(last)
	}
}

// lasts polls for a while and tells whether ok held all the time, and what it said when it did not.
func lasts(d time.Duration, ok func() (bool, string)) (held bool, last string) {
	end := time.After(d)
	for {
		if held, last := ok(); !held {
			return false, last
		}
		select {
		case <-end:
			return true, ""
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// defaultShard is where mustEnqueue puts its tasks.
func defaultShard(t testing.TB) string {
	t.Helper()
	name, err := Shards(DefaultShards).name(job.QueueDefault, 0)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// stateOf is the state of a task as asynq itself tells it, "" when there is none.
func stateOf(t testing.TB, rdb redis.UniversalClient, id string) string {
	t.Helper()
	info := infoOf(t, rdb, id)
	if info == nil {
		return ""
	}
	return info.State.String()
}

func infoOf(t testing.TB, rdb redis.UniversalClient, id string) *asynq.TaskInfo {
	t.Helper()
	info, err := asynq.NewInspectorFromRedisClient(rdb).GetTaskInfo(defaultShard(t), id)
	if err != nil {
		return nil
	}
	return info
}

func awaitState(t testing.TB, rdb redis.UniversalClient, id, want string, within time.Duration) {
	t.Helper()
	eventually(t, within, func() (bool, string) {
		got := stateOf(t, rdb, id)
		return got == want, fmt.Sprintf("task %s is %q, want %q", id, got, want)
	})
}

// evalRate is how many scripts Redis runs a second, measured over d or longer: a machine that stands still for a while
// makes it less, not more.
func evalRate(t testing.TB, rdb redis.UniversalClient, d time.Duration) float64 {
	t.Helper()
	start, before := time.Now(), evals(t, rdb)
	throughout(t, d, func() (bool, string) { return true, "" })
	n := evals(t, rdb) - before
	return float64(n) / time.Since(start).Seconds()
}

// evals is how many scripts Redis has run.
func evals(t testing.TB, rdb redis.UniversalClient) int {
	t.Helper()
	info, err := rdb.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(info) {
		for _, prefix := range []string{"cmdstat_evalsha:calls=%d", "cmdstat_eval:calls=%d"} {
			var calls int
			if _, err := fmt.Sscanf(line, prefix, &calls); err == nil {
				n += calls
			}
		}
	}
	return n
}
