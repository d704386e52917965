package roster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what must happen in the end, also on a machine that is busy with other things.
const patience = time.Minute

// eventually polls until ok, and fails with what it last said.
func eventually(t *testing.T, ok func() (bool, any)) {
	t.Helper()
	for start := time.Now(); ; {
		done, last := ok()
		if done {
			return
		}
		if time.Since(start) > patience {
			t.Fatalf("not within %s: %v", patience, last)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func client(t *testing.T) redis.UniversalClient {
	return redistest.Start(t, redistest.Options{}).Client()
}

func member(t *testing.T, rdb redis.UniversalClient, name string) *Member {
	t.Helper()
	m, err := Join(t.Context(), rdb, "fleet", name, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Leave(context.WithoutCancel(t.Context())) })
	return m
}

// A worker whose start takes long keeps its name meanwhile.
func TestNameIsKeptBeforeRun(t *testing.T) {
	t.Parallel()
	rdb := client(t)
	m := member(t, rdb, "w")
	lowest := nameTTL
	eventually(t, func() (bool, any) {
		left := rdb.PTTL(t.Context(), m.key()).Val()
		lowest = min(lowest, left)
		return left > lowest, left
	})
}

func TestSecondOfANameIsRefused(t *testing.T) {
	t.Parallel()
	rdb := client(t)
	first := member(t, rdb, "w")
	member(t, rdb, "another")
	if _, err := Join(t.Context(), rdb, "fleet", "w", zap.NewNop()); cli.Code(err) != cli.CodeFailed || !strings.Contains(err.Error(), "--name") {
		t.Errorf("got %v, want a refusal with advice about --name", err)
	}
	first.Leave(t.Context())
	member(t, rdb, "w")
}

func TestNameOfADeadWorkerIsTaken(t *testing.T) {
	t.Parallel()
	rdb := client(t)
	if err := rdb.Set(t.Context(), "tf:worker:fleet:w", "dead", 300*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	member(t, rdb, "w")
}

func TestNameIsTakenAway(t *testing.T) {
	t.Parallel()
	rdb := client(t)
	m := member(t, rdb, "w")
	if err := rdb.Set(t.Context(), m.key(), "another", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := m.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "--name") {
		t.Errorf("got %v, want advice about --name", err)
	}
	m.Leave(t.Context())
	if got := rdb.Get(t.Context(), m.key()).Val(); got != "another" {
		t.Errorf("the name is held by %q, want that the other keeps it", got)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	m := member(t, client(t), "w")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Run(ctx); err != nil {
		t.Error(err)
	}
}

// lowered are the fleet's limits with two of them lowered.
func lowered(wallMS, memory int64) job.Limits {
	l := job.MaxLimits()
	l.WallMS, l.MemoryBytes = wallMS, memory
	return l
}

func look(t *testing.T, rdb redis.UniversalClient) Fleet {
	t.Helper()
	got, err := NewBoard(rdb).Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Who asks right after a worker has begun to take jobs hears of it.
func TestOfferDoesNotWaitForTheNextSignOfLife(t *testing.T) {
	t.Parallel()
	rdb := client(t)
	m, err := join(t.Context(), rdb, "fleet", "w", zap.NewNop(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Leave(context.WithoutCancel(t.Context()))
	if err := m.Offer(job.MaxLimits()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() (bool, any) { got := look(t, rdb); return got.Workers == 1, got })
}

// What is promised is what every worker takes, and no worker that is gone has a say.
func TestMaximaAreThoseOfAllWorkers(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(t *testing.T) redis.UniversalClient{
		"redis": client, "embedded": func(t *testing.T) redis.UniversalClient { return redistest.Client(t, miniredis.RunT(t).Addr()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testMaxima(t, client(t))
		})
	}
}

func testMaxima(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	if diff := cmp.Diff(Fleet{Maxima: job.MaxLimits()}, look(t, rdb)); diff != "" {
		t.Errorf("without workers (-want +got):\n%s", diff)
	}
	one, two := member(t, rdb, "one"), member(t, rdb, "{two}")
	for m, limits := range map[*Member]job.Limits{one: lowered(5_000, 4<<30), two: lowered(300_000, 1<<30)} {
		if err := m.Offer(limits); err != nil {
			t.Fatal(err)
		}
	}
	past, future := float64(time.Now().Add(-time.Second).UnixMilli()), float64(time.Now().Add(time.Hour).UnixMilli())
	rdb.ZAdd(t.Context(), offersKey,
		redis.Z{Score: past, Member: `fleet gone ` + encoded(t, lowered(100, 32<<20))},
		redis.Z{Score: future, Member: `fleet newer {"wall_ms":1}`}, redis.Z{Score: future, Member: "nonsense"})
	eventually(t, func() (bool, any) { got := look(t, rdb); return got == Fleet{4, lowered(5_000, 1<<30)}, got })
	one.Leave(t.Context())
	if diff := cmp.Diff(Fleet{3, lowered(300_000, 1<<30)}, look(t, rdb)); diff != "" {
		t.Errorf("after one has left (-want +got):\n%s", diff)
	}
}

// However many workers there are, each has a say, and what is no offer of one has none.
func TestMaximaOfManyWorkers(t *testing.T) {
	t.Parallel()
	const workers = 2500
	for name, rdb := range map[string]redis.UniversalClient{"redis": client(t), "embedded": redistest.Client(t, miniredis.RunT(t).Addr())} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			soon, last := float64(time.Now().Add(time.Hour).UnixMilli()), float64(time.Now().Add(2*time.Hour).UnixMilli())
			offers := []redis.Z{
				{Score: last, Member: "fleet odd\x00{\xff}\n " + encoded(t, lowered(5_000, 1<<30))},
				{Score: soon, Member: "fleet large {" + strings.Repeat(" ", 1<<20) + encoded(t, lowered(100, 32<<20))[1:]},
			}
			for n := range workers {
				offers = append(offers, redis.Z{Score: soon, Member: fmt.Sprintf("fleet w%d %s", n, encoded(t, lowered(60_000, 2<<30)))})
			}
			if err := rdb.ZAdd(t.Context(), offersKey, offers...).Err(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Fleet{workers + 2, lowered(5_000, 1<<30)}, look(t, rdb)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func encoded(t *testing.T, l job.Limits) string {
	t.Helper()
	offer, err := encode("", "", l)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(offer)
}

func TestFollower(t *testing.T) {
	t.Parallel()
	rdb := client(t)
	f := NewFollower(NewBoard(rdb), zap.NewNop())
	if got := f.Maxima(); got != job.MaxLimits() {
		t.Errorf("before it has looked: got %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	if err := member(t, rdb, "w").Offer(lowered(5_000, 1<<30)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() (bool, any) { got := f.Maxima(); return got == lowered(5_000, 1<<30), got })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
