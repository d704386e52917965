package ledger

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onBoth runs a test on a real Redis and on the embedded one.
func onBoth(t *testing.T, cfg Config, test func(t *testing.T, l *Ledger, rdb redis.UniversalClient)) {
	t.Helper()
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		rdb := redistest.Start(t, redistest.Options{}).Client()
		test(t, newLedger(t, rdb, cfg), rdb)
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		rdb := redistest.Client(t, miniredis.RunT(t).Addr())
		test(t, newLedger(t, rdb, cfg), rdb)
	})
}

func newLedger(t *testing.T, rdb redis.UniversalClient, cfg Config) *Ledger {
	t.Helper()
	l, err := New(rdb, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// fast are settings under which a claim is stale after a tenth of a second. They are for tests that wait until one is: a
// busy machine does not keep a claim alive under them.
func fast() Config {
	return Config{BeatEvery: 20 * time.Millisecond, StaleAfter: 100 * time.Millisecond}
}

// enduring are settings under which a claim is renewed all the time, and would live without that.
func enduring() Config {
	return Config{BeatEvery: 20 * time.Millisecond, StaleAfter: time.Hour}
}

func testJob(id string) job.Job {
	return job.Job{ID: id, Files: map[string]string{"main.py": "print(1)\n"}, Tenant: "acme", Name: "né <b>"}.Normalize()
}

func testResult(id string, status job.Status) job.Result {
	return job.Result{
		Schema: job.ResultSchema, ID: id, Status: status, Headline: "done", Encoding: job.EncodingUTF8,
		Stdout: "1\n", StdoutBytes: 2, Limits: job.DefaultLimits(), EnqueuedAt: time.Unix(1700000000, 0).UTC(), FinishedAt: time.Unix(1700000001, 0).UTC(),
	}
}

func mustCreate(t *testing.T, l *Ledger, id string) Entry {
	t.Helper()
	e, created, err := l.Create(t.Context(), testJob(id))
	if err != nil || !created {
		t.Fatalf("Create(%s): created %v, error %v", id, created, err)
	}
	return e
}

func mustClaim(t *testing.T, l *Ledger, id string) Claim {
	t.Helper()
	c, err := l.Claim(t.Context(), id, "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// patience bounds what must happen in the end, also on a machine that is busy with other things.
const patience = time.Minute

// eventually polls until ok, and fails with what it last said.
func eventually(t *testing.T, within time.Duration, ok func(ctx context.Context) (bool, string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for {
		done, last := ok(t.Context())
		if done {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", within, last)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
