package ledger

import (
	"context"
	"errors"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/redistest"
)

func TestEveryKeyHasATTL(t *testing.T) {
	onBoth(t, fast(), func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		ctx := t.Context()
		mustCreate(t, l, "queued")
		mustCreate(t, l, "running")
		mustClaim(t, l, "running")
		mustCreate(t, l, "released")
		if err := l.Release(ctx, "released", mustClaim(t, l, "released").Fence, "engine"); err != nil {
			t.Fatal(err)
		}
		mustCreate(t, l, "lost")
		mustClaim(t, l, "lost")
		reclaim(t, l, "lost", StateQueued)
		mustCreate(t, l, "canceled")
		if _, err := l.Cancel(ctx, "canceled"); err != nil {
			t.Fatal(err)
		}
		mustCreate(t, l, "finished")
		if err := l.Finish(ctx, "finished", mustClaim(t, l, "finished").Fence, testResult("finished", job.StatusOK)); err != nil {
			t.Fatal(err)
		}
		mustCreate(t, l, "dead")
		if err := l.Bury(ctx, "dead", mustClaim(t, l, "dead").Fence, "engine", "m", testResult("dead", job.StatusSystemError)); err != nil {
			t.Fatal(err)
		}
		keys := rdb.Keys(ctx, "*").Val()
		if len(keys) < 20 {
			t.Fatalf("only %d keys: %v", len(keys), keys)
		}
		for _, key := range keys {
			ttl := rdb.PTTL(ctx, key).Val()
			if ttl == -2 {
				continue // the indexes follow a little later: it has gone since it was listed
			}
			low, high := DefaultOpenTTL-DefaultRetention, 2*DefaultOpenTTL
			switch {
			case strings.Contains(key, "{finished}"), strings.Contains(key, "{canceled}"):
				low, high = DefaultRetention/2, DefaultRetention
			case strings.Contains(key, "{dead}"), strings.Contains(key, deadKey):
				low, high = DefaultDeadTTL/2, DefaultDeadTTL
			}
			if ttl < low || ttl > high {
				t.Errorf("%s: TTL %s, want %s to %s", key, ttl, low, high)
			}
		}
	})
}

func TestDamageIsReported(t *testing.T) {
	huge := strings.Repeat("\x00", job.MaxDocumentBytes+1)
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := string(enc.EncodeAll([]byte(huge), nil))
	notAJob := string(enc.EncodeAll([]byte(`{"files":{"main.py":"1"},"surprise":1}`), nil))
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		ctx := t.Context()
		get := func(id string) error { _, err := l.Get(ctx, id); return err }
		input := func(id string) error { _, err := l.Input(ctx, id); return err }
		result := func(id string) error { _, err := l.Result(ctx, id); return err }
		history := func(id string) error { _, err := l.History(ctx, id); return err }
		for name, tt := range map[string]struct {
			damage func(id string) error
			read   func(id string) error
			want   string
		}{
			"input is no zstd": {func(id string) error { return rdb.Set(ctx, inputKey(id), "junk", 0).Err() }, input, "zstd"},
			"input is a bomb":  {func(id string) error { return rdb.Set(ctx, inputKey(id), bomb, 0).Err() }, input, "zstd"},
			"input is no job":  {func(id string) error { return rdb.Set(ctx, inputKey(id), notAJob, 0).Err() }, input, "surprise"},
			"input is of another": {func(id string) error {
				return rdb.Set(ctx, inputKey(id), rdb.Get(ctx, inputKey("other")).Val(), 0).Err()
			}, input, "other"},
			"input is a list":      {func(id string) error { return relist(ctx, rdb, inputKey(id)) }, input, "wrong type"},
			"result is no zstd":    {func(id string) error { return rdb.Set(ctx, resultKey(id), "junk", 0).Err() }, result, "zstd"},
			"result is too large":  {func(id string) error { return rdb.Set(ctx, resultKey(id), huge[:2<<20], 0).Err() }, result, "more than"},
			"result is missing":    {func(id string) error { return finished(l, rdb, ctx, id) }, result, "missing"},
			"state is unknown":     {func(id string) error { return rdb.HSet(ctx, entryKey(id), "state", "lost").Err() }, get, "state"},
			"state is missing":     {func(id string) error { return rdb.HDel(ctx, entryKey(id), "state").Err() }, get, "state"},
			"queue is unknown":     {func(id string) error { return rdb.HSet(ctx, entryKey(id), "queue", "fast").Err() }, get, "queue"},
			"fence is no number":   {func(id string) error { return rdb.HSet(ctx, entryKey(id), "fence", "x").Err() }, get, "fence"},
			"time is negative":     {func(id string) error { return rdb.HSet(ctx, entryKey(id), "created", "-1").Err() }, get, "created"},
			"digest is short":      {func(id string) error { return rdb.HSet(ctx, entryKey(id), "digest", "ab").Err() }, get, "digest"},
			"entry is a list":      {func(id string) error { return relist(ctx, rdb, entryKey(id)) }, get, "wrong type"},
			"history is no list":   {func(id string) error { return rdb.Set(ctx, historyKey(id), "x", 0).Err() }, history, "wrong type"},
			"history has nonsense": {func(id string) error { return rdb.RPush(ctx, historyKey(id), "a b c d e").Err() }, history, "attempt"},
			"history line is cut":  {func(id string) error { return rdb.RPush(ctx, historyKey(id), "1 2").Err() }, history, "attempt"},
		} {
			t.Run(name, func(t *testing.T) {
				id := strings.ReplaceAll(name, " ", "-")
				mustCreate(t, l, id)
				if _, _, err := l.Create(ctx, testJob("other")); err != nil {
					t.Fatal(err)
				}
				if err := tt.damage(id); err != nil {
					t.Fatal(err)
				}
				err := tt.read(id)
				if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want ErrCorrupt with %q", err, tt.want)
				}
			})
		}
	})
}

func relist(ctx context.Context, rdb redis.UniversalClient, key string) error {
	if err := rdb.Del(ctx, key).Err(); err != nil {
		return err
	}
	return rdb.RPush(ctx, key, "x").Err()
}

func finished(l *Ledger, rdb redis.UniversalClient, ctx context.Context, id string) error {
	c, err := l.Claim(ctx, id, "w")
	if err != nil {
		return err
	}
	if err := l.Finish(ctx, id, c.Fence, testResult(id, job.StatusOK)); err != nil {
		return err
	}
	return rdb.Del(ctx, resultKey(id)).Err()
}

func TestDamagedEntryCanBeRejected(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		ctx := t.Context()
		for name, damage := range map[string]func(id string) error{
			"unknown-state": func(id string) error { return rdb.HSet(ctx, entryKey(id), "state", "x").Err() },
			"no-state":      func(id string) error { return rdb.HDel(ctx, entryKey(id), "state").Err() },
			"bad-fence":     func(id string) error { return rdb.HSet(ctx, entryKey(id), "fence", "x").Err() },
			"bad-attempts":  func(id string) error { return rdb.HSet(ctx, entryKey(id), "attempts", "x", "queue", "x").Err() },
			"bad-retention": func(id string) error { return rdb.HSet(ctx, entryKey(id), "retention", "x").Err() },
			"a-list":        func(id string) error { return relist(ctx, rdb, entryKey(id)) },
		} {
			mustCreate(t, l, name)
			if err := damage(name); err != nil {
				t.Fatal(err)
			}
			c, err := l.Claim(ctx, name, "w")
			if c.Fence == 0 || err != nil && !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: Claim: fence %d, error %v", name, c.Fence, err)
			}
			if err == nil && name != "bad-fence" {
				t.Errorf("%s: Claim has no error", name)
			}
			if err := l.Finish(ctx, name, c.Fence, testResult(name, job.StatusRejected)); err != nil {
				t.Errorf("%s: Finish: %v", name, err)
			}
			if r, err := l.Wait(ctx, name); err != nil || r.Status != job.StatusRejected {
				t.Errorf("%s: status %q, error %v", name, r.Status, err)
			}
			if ttl := rdb.PTTL(ctx, entryKey(name)).Val(); ttl <= 0 {
				t.Errorf("%s: the entry has no TTL", name)
			}
		}
	})
}

// A client that has lost the answer to a claim sends the same script again. That says again that the entry was damaged.
func TestRepeatedClaimTellsOfDamage(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		ctx := t.Context()
		mustCreate(t, l, "a")
		if err := rdb.HDel(ctx, entryKey("a"), "state").Err(); err != nil {
			t.Fatal(err)
		}
		for _, sent := range []string{"first", "again"} {
			got, err := claimScript.Run(ctx, rdb, jobKeys("a"), "w", DefaultOpenTTL.Milliseconds(), "nonce", maxInputBytes, "a").Slice()
			if err != nil {
				t.Fatal(err)
			}
			code, rest := codeOf(got)
			c, err := newClaim("a", entryOf(rest, 0))
			if code != "claimed" || c.Fence != 1 || !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: %s, fence %d, error %v; want claimed, 1, ErrCorrupt", sent, code, c.Fence, err)
			}
		}
	})
}

func TestTooLargeResultIsRefused(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		mustCreate(t, l, "a")
		c := mustClaim(t, l, "a")
		r := testResult("a", job.StatusOK)
		r.Stdout = noise(4 << 20)
		err := l.Finish(t.Context(), "a", c.Fence, r)
		var large *TooLargeError
		if !errors.As(err, &large) || !large.Compressed || large.Bytes <= large.MaxBytes || large.MaxBytes != l.MaxResultBytes() {
			t.Fatalf("got %v, want a TooLargeError", err)
		}
		if _, n, err := l.ResultSize(r); err != nil || n != large.Bytes {
			t.Errorf("ResultSize: got %d, error %v, want %d", n, err, large.Bytes)
		}
		r.Stdout = strings.Repeat("x", 16_000_000) // compresses to nothing
		if err := l.Finish(t.Context(), "a", c.Fence, r); err != nil {
			t.Error(err)
		}
		if got, err := l.Result(t.Context(), "a"); err != nil || len(got.Stdout) != len(r.Stdout) {
			t.Errorf("result: %d bytes, error %v", len(got.Stdout), err)
		}
	})
}

// noise is text that does not compress well.
func noise(n int) string {
	r := rand.New(rand.NewSource(1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('!' + r.Intn(90))
	}
	return string(b)
}

func TestFinishRefusesTheResultOfAnother(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		mustCreate(t, l, "a")
		c := mustClaim(t, l, "a")
		if err := l.Finish(t.Context(), "a", c.Fence, testResult("b", job.StatusOK)); err == nil {
			t.Error("the result of another job was taken")
		}
		if err := l.Finish(t.Context(), "a", c.Fence, testResult("a", "fine")); err == nil {
			t.Error("an unknown status was taken")
		}
	})
}

func TestWaitOutlastsARestartOfRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AppendOnly: true})
	rdb := server.Client()
	seen := lookedAt{key: entryKey("a"), yes: make(chan struct{}, 1)}
	rdb.AddHook(seen)
	l := newLedger(t, rdb, Config{})
	mustCreate(t, l, "a")
	got := make(chan error, 1)
	go func() {
		_, err := l.Wait(t.Context(), "a")
		got <- err
	}()
	<-seen.yes // before that nobody knows whether there is such a job
	server.Kill()
	server.Restart()
	c := mustClaim(t, l, "a")
	if err := l.Finish(t.Context(), "a", c.Fence, testResult("a", job.StatusOK)); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// lookedAt tells when a command that is no script has read a key.
type lookedAt struct {
	key string
	yes chan struct{}
}

func (lookedAt) DialHook(next redis.DialHook) redis.DialHook { return next }

func (lookedAt) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h lookedAt) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if args := cmd.Args(); len(args) > 1 && args[1] == h.key {
			select {
			case h.yes <- struct{}{}:
			default:
			}
		}
		return err
	}
}

func TestChangeOutlastsARedisThatIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.StartProxy(t, server.Addr())
	l, through := newLedger(t, server.Client(), Config{}), newLedger(t, redistest.Client(t, proxy.Addr()), Config{})
	mustCreate(t, l, "a")
	proxy.Cut()
	if _, err := through.Change(t.Context(), "a", ""); err == nil {
		t.Error("a job that nobody has seen: no error")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := through.Change(ctx, "a", StateQueued); err == nil || ctx.Err() == nil {
		t.Errorf("got %v before the deadline, want to go on until then", err)
	}
	type change struct {
		entry Entry
		err   error
	}
	got := make(chan change, 1)
	go func() {
		e, err := through.Change(t.Context(), "a", StateQueued)
		got <- change{e, err}
	}()
	mustClaim(t, l, "a")
	proxy.Mend()
	if c := <-got; c.err != nil || c.entry.State != StateRunning {
		t.Errorf("got state %q, error %v, want running", c.entry.State, c.err)
	}
}

// TestCloseLeavesTheRestAtWork reads inputs and results before, beside and after Close.
func TestCloseLeavesTheRestAtWork(t *testing.T) {
	t.Parallel()
	l := newLedger(t, redistest.Start(t, redistest.Options{}).Client(), Config{})
	mustCreate(t, l, "a")
	c := mustClaim(t, l, "a")
	if err := l.Finish(t.Context(), "a", c.Fence, testResult("a", job.StatusOK)); err != nil {
		t.Fatal(err)
	}
	read := func() {
		_, ierr := l.Input(t.Context(), "a")
		_, rerr := l.Result(t.Context(), "a")
		_, werr := l.Wait(t.Context(), "a")
		if err := errors.Join(ierr, rerr, werr); err != nil {
			t.Error(err)
		}
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 50 {
				read()
			}
		})
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	readers.Wait()
	read()
}

func TestFullRedisChangesNothing(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	l := newLedger(t, rdb, Config{})
	ctx := t.Context()
	mustCreate(t, l, "a")
	c := mustClaim(t, l, "a")
	if err := rdb.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Create(ctx, testJob("b")); err == nil {
		t.Error("Create: no error")
	}
	if err := l.Finish(ctx, "a", c.Fence, testResult("a", job.StatusOK)); err == nil {
		t.Error("Finish: no error")
	}
	if n := rdb.Exists(ctx, entryKey("b"), inputKey("b"), resultKey("a")).Val(); n != 0 {
		t.Errorf("%d keys were written", n)
	}
	if err := rdb.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if err := l.Finish(ctx, "a", c.Fence, testResult("a", job.StatusOK)); err != nil {
		t.Error(err)
	}
}

// TestCluster runs every script on a server that refuses commands on more than one slot.
func TestCluster(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{redistest.StartCluster(t).Addr()}, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	l := newLedger(t, rdb, fast())
	ctx := t.Context()
	for _, id := range []string{"finished", "canceled", "dead", "lost"} {
		mustCreate(t, l, id)
	}
	allDue(t, l)
	if open, err := l.Overdue(ctx, 10); len(open) != 4 || err != nil {
		t.Errorf("overdue: %+v, error %v", open, err)
	}
	c := mustClaim(t, l, "finished")
	if err := l.Release(ctx, "finished", c.Fence, "engine"); err != nil {
		t.Error(err)
	}
	c = mustClaim(t, l, "finished")
	_, stop := l.Hold(ctx, c)
	defer stop()
	waited := make(chan error, 1)
	go func() {
		_, err := l.Wait(ctx, "finished")
		waited <- err
	}()
	if err := l.Finish(ctx, "finished", c.Fence, testResult("finished", job.StatusOK)); err != nil {
		t.Error(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if s, err := l.Cancel(ctx, "canceled"); s != StateCanceled || err != nil {
		t.Errorf("state %q, error %v", s, err)
	}
	mustClaim(t, l, "lost")
	reclaim(t, l, "lost", StateQueued)
	c = mustClaim(t, l, "dead")
	if err := l.Bury(ctx, "dead", c.Fence, "engine", "m", testResult("dead", job.StatusSystemError)); err != nil {
		t.Error(err)
	}
	if dead, err := l.DeadLetters(ctx, DeadLetterFilter{}); len(dead) != 1 || err != nil {
		t.Errorf("dead letters: %+v, error %v", dead, err)
	}
	if f, err := CheckServer(ctx, rdb); err != nil || f.Mode != "cluster" {
		t.Errorf("facts %+v, error %v", f, err)
	}
}

func FuzzStoredDocuments(f *testing.F) {
	c, err := newCodec()
	if err != nil {
		f.Fatal(err)
	}
	input, _, err := c.encodeInput(testJob("a"))
	if err != nil {
		f.Fatal(err)
	}
	result, err := c.encodeResult(testResult("a", job.StatusOK), 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(input)
	f.Add(result)
	f.Add([]byte{})
	f.Add([]byte("\x28\xb5\x2f\xfd"))
	f.Fuzz(func(t *testing.T, blob []byte) {
		if j, err := c.decodeInput(blob); err == nil {
			if err := j.Validate(job.MaxLimits()); err != nil {
				t.Errorf("an invalid job was taken: %v", err)
			}
		} else if !errors.Is(err, ErrCorrupt) {
			t.Errorf("input: %v", err)
		}
		if r, err := c.decodeResult(blob); err == nil {
			if !r.Status.Valid() {
				t.Errorf("status %q was taken", r.Status)
			}
		} else if !errors.Is(err, ErrCorrupt) {
			t.Errorf("result: %v", err)
		}
	})
}

func FuzzEntry(f *testing.F) {
	f.Add("queued", "1", "1700000000000", "default", "1 2 3 w ok")
	f.Add("running", "-1", "x", "", "")
	f.Fuzz(func(t *testing.T, state, number, time, queue, line string) {
		stored := hash{
			"state": state, "fence": number, "attempts": number, "lost": number, "created": time, "beat": time, "queue": queue,
			"digest": strings.Repeat("0", 64), "status": state, "ended": number,
		}
		r := make(record, len(entryFields))
		for i, name := range entryFields {
			if value, ok := stored[name]; ok {
				r[i] = value
			}
		}
		e, err := parseEntry("a", r)
		if err == nil && e.State != StateQueued && e.State != StateRunning && !e.State.Terminal() {
			t.Errorf("state %q was taken", e.State)
		}
		if e.Fence < 0 || e.Attempts < 0 {
			t.Errorf("negative: %+v", e)
		}
		if a, ok, err := lastAttempt(r); !ok || a.Fence < 0 || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("last attempt %+v, %v, error %v", a, ok, err)
		}
		if _, err := parseAttempt(line); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Error(err)
		}
	})
}
