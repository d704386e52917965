package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/redistest"
)

// openKeys are the keys of the index of open jobs.
func openKeys(ctx context.Context, rdb redis.UniversalClient) []string {
	return append(rdb.Keys(ctx, openKey).Val(), rdb.Keys(ctx, "{"+openKey+"}*").Val()...)
}

func TestEndedJobsLeaveEveryIndex(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		ctx := t.Context()
		const n = 2*maxNews + 7 // more than go at once
		for i := range n {
			j := tenantJob(fmt.Sprint("job-", i), []string{"", "a", "b:c"}[i%3], job.Queues()[i%2])
			if _, _, err := l.Create(ctx, j); err != nil {
				t.Fatal(err)
			}
		}
		for i := range n {
			id := fmt.Sprint("job-", i)
			c := mustClaim(t, l, id)
			if err := l.Finish(ctx, id, c.Fence, testResult(id, job.StatusOK)); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, patience, func(ctx context.Context) (bool, string) {
			keys := openKeys(ctx, rdb)
			return len(keys) == 0, fmt.Sprint("left: ", keys)
		})
	})
}

// Of more claims than go at once, each part says how many are in it.
func TestManyClaimsAreToldInParts(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		ctx := t.Context()
		const n = 2*maxNews + 7
		var failed refusals
		rdb.AddHook(&failed)
		l.news.mu.Lock()
		for i := range n {
			id := fmt.Sprint("job-", i)
			rdb.ZAdd(ctx, openKey, redis.Z{Score: 1e15, Member: id})
			l.news.claims[id] = struct{}{}
		}
		l.news.mu.Unlock()
		l.news.send(ctx)
		if late := rdb.ZCount(ctx, openKey, "1e15", "+inf").Val(); late != 0 {
			t.Errorf("%d of %d claims were not told of", late, n)
		}
		if got := failed.texts(); len(got) > 0 {
			t.Errorf("scripts failed: %q", got)
		}
	})
}

// refusals collects the errors that Redis gives, but for that of a script it has not seen yet.
type refusals struct {
	mu   sync.Mutex
	said []string
}

func (*refusals) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*refusals) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r *refusals) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		var answer redis.Error
		if errors.As(err, &answer) && err != redis.Nil && !redis.HasErrorPrefix(err, "NOSCRIPT") {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.said = append(r.said, err.Error())
		}
		return err
	}
}

func (r *refusals) texts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.said)
}

// A claim is looked at as soon as it can be stale, although its job was not to be looked at so soon.
func TestClaimIsLookedAtInTime(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		ctx := t.Context()
		for _, id := range []string{"late", "early", "ended"} {
			mustCreate(t, l, id)
			if err := l.Postpone(ctx, id, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Postpone(ctx, "early", time.Second); err != nil {
			t.Fatal(err)
		}
		early := rdb.ZScore(ctx, openKey, "early").Val()
		for _, id := range []string{"late", "early", "ended"} {
			c := mustClaim(t, l, id)
			if id != "ended" {
				continue
			}
			if err := l.Finish(ctx, id, c.Fence, testResult(id, job.StatusOK)); err != nil {
				t.Fatal(err)
			}
		}
		l.news.send(ctx)
		at := time.UnixMilli(int64(rdb.ZScore(ctx, openKey, "late").Val()))
		if in := time.Until(at); in > DefaultStaleAfter+time.Second || in < DefaultStaleAfter-patience {
			t.Errorf("a claim is looked at in %s, want %s", in, DefaultStaleAfter)
		}
		if got := rdb.ZScore(ctx, openKey, "early").Val(); got != early {
			t.Errorf("what is due earlier was put off: from %.0f to %.0f", early, got)
		}
		if err := rdb.ZScore(ctx, openKey, "ended").Err(); err != redis.Nil {
			t.Errorf("a job that has ended is in the index: %v", err)
		}
	})
}

// The safety TTL of a job that has waited for long is renewed by its claim.
func TestClaimRenewsTheTTL(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		ctx := t.Context()
		for id, waited := range map[string]time.Duration{"waited": DefaultOpenTTL / 4, "new": 0} {
			e := mustCreate(t, l, id)
			for _, key := range []string{entryKey(id), inputKey(id)} {
				rdb.PExpire(ctx, key, DefaultOpenTTL/2)
			}
			rdb.HSet(ctx, entryKey(id), "since", e.QueuedAt.Add(-waited).UnixMilli())
			mustClaim(t, l, id)
			for _, key := range []string{entryKey(id), inputKey(id)} {
				if renewed := rdb.PTTL(ctx, key).Val() > DefaultOpenTTL/2; renewed != (waited > 0) {
					t.Errorf("%s: renewed: %v", key, renewed)
				}
			}
		}
	})
}

// Who listens to one thing is not sent everything.
func TestOnlyWhatIsListenedToIsHeard(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	l := newLedger(t, rdb, Config{})
	mustCreate(t, l, "a")
	_, stop := l.Hold(t.Context(), mustClaim(t, l, "a"))
	defer stop()
	heard := func(want string) {
		t.Helper()
		eventually(t, patience, func(ctx context.Context) (bool, string) {
			n := rdb.PubSubNumSub(ctx, doneChannel, cancelChannel, stateChannel).Val()
			got := fmt.Sprint(n[doneChannel], n[cancelChannel], n[stateChannel])
			return got == want, fmt.Sprintf("listeners of ends, cancellations, states: %s, want %s", got, want)
		})
	}
	heard("0 1 0")
	if _, err := l.Endings(t.Context()); err != nil {
		t.Fatal(err)
	}
	heard("1 1 0")
	_, leave := l.hub.listen(stateChannel, "a")
	defer leave()
	heard("1 1 1")
}

func TestSmallDocumentsAreStoredAsTheyAre(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		ctx := t.Context()
		large := testJob("large")
		large.Files["main.py"] = strings.Repeat("print(1)\n", 1000)
		for _, j := range []job.Job{testJob("small"), large} {
			if _, _, err := l.Create(ctx, j); err != nil {
				t.Fatal(err)
			}
			stored := rdb.Get(ctx, inputKey(j.ID)).Val()
			if plain := strings.HasPrefix(stored, `{"language"`); plain != (j.ID == "small") || len(stored) > plainBytes {
				t.Errorf("%s: stored as %.20q…, %d bytes", j.ID, stored, len(stored))
			}
			got, err := l.Input(ctx, j.ID)
			if err != nil || got.Digest() != j.Digest() {
				t.Errorf("%s: got another job, error %v", j.ID, err)
			}
		}
	})
}

// A dead letter that is requeued while its worker still takes it out of the index of open jobs is found there afterwards.
func TestRequeuedWhileItIsBuried(t *testing.T) {
	for name, first := range map[string]bool{"before it is taken out": true, "after it was taken out": false} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, Config{}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
				ctx := t.Context()
				other := redistest.Client(t, rdb.(*redis.Client).Options().Addr)
				once := sync.OnceFunc(func() {
					if _, err := l.Requeue(ctx, "job"); err != nil {
						t.Error(err)
					}
				})
				other.AddHook(around{script: newsScript.Hash(), before: first, do: once})
				worker := newLedger(t, other, Config{})
				mustCreate(t, l, "job")
				c := mustClaim(t, worker, "job")
				worker.news.send(ctx) // Of the claim; now it is about the burial.
				if err := worker.Bury(ctx, "job", c.Fence, "infra", "broken", testResult("job", job.StatusSystemError)); err != nil {
					t.Fatal(err)
				}
				once()
				if _, err := rdb.ZScore(ctx, openKey, "job").Result(); err != nil {
					t.Errorf("the job is queued and not in the index: %v", err)
				}
				if n := rdb.HExists(ctx, openOfKey, "job").Val(); !n {
					t.Error("the job is queued and not counted")
				}
			})
		})
	}
}

// around does something before or after a script is sent for the burial of a job.
type around struct {
	script string
	before bool
	do     func()
}

func (around) DialHook(next redis.DialHook) redis.DialHook { return next }

func (around) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a around) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		hit := len(args) == 8 && args[1] == a.script && fmt.Sprint(args[6]) == "0" // no claims, one ending
		if hit && a.before {
			a.do()
		}
		err := next(ctx, cmd)
		if hit && !a.before && err == nil {
			a.do()
		}
		return err
	}
}

// Whoever asks the index does not wait for somebody else's news longer than its own deadline.
func TestNewsDoNotOutlastADeadline(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		l.news.turn <- struct{}{} // as if Redis hung
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := l.Create(ctx, testJob("job")); !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want that the context is canceled", err)
		}
		l.news.ended(t.Context(), "gone")
		<-l.news.turn
		eventually(t, patience, func(context.Context) (bool, string) {
			l.news.mu.Lock()
			defer l.news.mu.Unlock()
			return len(l.news.endings) == 0 && !l.news.due, "the news were not sent when it was their turn"
		})
	})
}
