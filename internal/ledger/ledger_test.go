package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
)

func TestCreateStoresTheJob(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		want := testJob("a")
		e := mustCreate(t, l, "a")
		wantEntry := Entry{
			ID: "a", State: StateQueued, Digest: want.Digest(), Tenant: "acme", Queue: job.QueueDefault, Name: want.Name,
			InputBytes: e.InputBytes, Retention: want.Retention(), CreatedAt: e.CreatedAt, QueuedAt: e.CreatedAt,
		}
		if diff := cmp.Diff(wantEntry, e); diff != "" {
			t.Errorf("entry (-want +got):\n%s", diff)
		}
		if age := time.Since(e.CreatedAt); age < -time.Second || age > time.Minute {
			t.Errorf("created %s ago", age)
		}
		got, err := l.Input(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("input (-want +got):\n%s", diff)
		}
	})
}

func TestCreateIsIdempotentByDigest(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		first := mustCreate(t, l, "a")
		again, created, err := l.Create(t.Context(), testJob("a"))
		if err != nil || created {
			t.Errorf("second Create: created %v, error %v", created, err)
		}
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("the entry changed (-first +again):\n%s", diff)
		}
		other := testJob("a")
		other.Stdin = "other"
		if _, _, err := l.Create(t.Context(), other); !errors.Is(err, ErrConflict) {
			t.Errorf("other input under the same id: got %v, want ErrConflict", err)
		}
		if got, err := l.Input(t.Context(), "a"); err != nil || got.Stdin != "" {
			t.Errorf("input after the conflict: stdin %q, error %v", got.Stdin, err)
		}
	})
}

func TestCreateRefusesWhatIsNoID(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		for _, id := range []string{"", "a}b", "a b", strings.Repeat("a", 300)} {
			if _, _, err := l.Create(t.Context(), testJob(id)); err == nil {
				t.Errorf("Create with id %.20q: no error", id)
			}
			if _, err := l.Get(t.Context(), id); !errors.Is(err, ErrNotFound) {
				t.Errorf("Get(%.20q): got %v, want ErrNotFound", id, err)
			}
		}
	})
}

func TestRunOnce(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		mustCreate(t, l, "a")
		if _, err := l.Result(t.Context(), "a"); !errors.Is(err, ErrNotFinished) {
			t.Errorf("Result while queued: got %v, want ErrNotFinished", err)
		}
		c := mustClaim(t, l, "a")
		if c.Fence != 1 || c.Attempt != 1 || c.Entry.State != StateRunning || c.Entry.Worker != "worker-1" {
			t.Errorf("claim: %+v", c)
		}
		if _, err := l.Claim(t.Context(), "a", "worker-2"); !errors.Is(err, ErrBusy) {
			t.Errorf("second Claim: got %v, want ErrBusy", err)
		}
		want := testResult("a", job.StatusException)
		if err := l.Finish(t.Context(), "a", c.Fence, want); err != nil {
			t.Fatal(err)
		}
		if err := l.Finish(t.Context(), "a", c.Fence, want); err != nil {
			t.Errorf("a repeated Finish: %v", err)
		}
		got, err := l.Result(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if _, err := l.Claim(t.Context(), "a", "worker-2"); !errors.Is(err, ErrTerminal) {
			t.Errorf("Claim of a finished job: got %v, want ErrTerminal", err)
		}
		e, err := l.Get(t.Context(), "a")
		if err != nil || e.State != StateFinished || e.Status != job.StatusException || e.FinishedAt.Before(e.ClaimedAt) {
			t.Errorf("entry: %+v, error %v", e, err)
		}
		history, err := l.History(t.Context(), "a")
		wantHistory := []Attempt{{Fence: 1, Worker: "worker-1", Start: e.ClaimedAt, End: e.FinishedAt, Class: "exception"}}
		if diff := cmp.Diff(wantHistory, history); diff != "" || err != nil {
			t.Errorf("history (-want +got):\n%s\nerror %v", diff, err)
		}
	})
}

func TestLateAttemptCannotOverwrite(t *testing.T) {
	onBoth(t, fast(), func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		mustCreate(t, l, "a")
		late := mustClaim(t, l, "a")
		reclaim(t, l, "a", StateQueued)
		if err := l.Finish(t.Context(), "a", late.Fence, testResult("a", job.StatusOK)); !errors.Is(err, ErrFenced) {
			t.Errorf("Finish after the claim was taken away: got %v, want ErrFenced", err)
		}
		second := mustClaim(t, l, "a")
		if second.Fence <= late.Fence || second.Attempt != 2 || second.Entry.Lost != 1 {
			t.Errorf("second claim: %+v", second)
		}
		for name, err := range map[string]error{
			"Finish":  l.Finish(t.Context(), "a", late.Fence, testResult("a", job.StatusOK)),
			"Bury":    l.Bury(t.Context(), "a", late.Fence, "engine", "m", testResult("a", job.StatusSystemError)),
			"Release": l.Release(t.Context(), "a", late.Fence, "engine"),
		} {
			if !errors.Is(err, ErrFenced) {
				t.Errorf("%s with the old fence: got %v, want ErrFenced", name, err)
			}
		}
		if _, err := l.Heartbeat(t.Context(), "a", late.Fence); !errors.Is(err, ErrFenced) {
			t.Errorf("Heartbeat with the old fence: got %v, want ErrFenced", err)
		}
		if err := l.Finish(t.Context(), "a", second.Fence, testResult("a", job.StatusTimeLimit)); err != nil {
			t.Fatal(err)
		}
		// Terminal is final, also for the attempt that lost.
		if err := l.Finish(t.Context(), "a", late.Fence, testResult("a", job.StatusOK)); !errors.Is(err, ErrTerminal) {
			t.Errorf("Finish after the end: got %v, want ErrTerminal", err)
		}
		if r, err := l.Result(t.Context(), "a"); err != nil || r.Status != job.StatusTimeLimit {
			t.Errorf("result: status %q, error %v", r.Status, err)
		}
	})
}

// reclaim waits until the claim is stale and takes it away.
func reclaim(t *testing.T, l *Ledger, id string, want State) {
	t.Helper()
	eventually(t, patience, func(ctx context.Context) (bool, string) {
		s, err := l.Reclaim(ctx, id)
		return err == nil && s == want, fmt.Sprintf("state %q, error %v", s, err)
	})
}

func TestReleaseCountsAttempts(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		mustCreate(t, l, "a")
		for i, step := range []struct {
			reason string
			want   int // of the attempt
		}{{"engine", 1}, {ReasonDraining, 2}, {ReasonDraining, 2}, {"engine", 2}, {"engine", 3}} {
			c := mustClaim(t, l, "a")
			if c.Attempt != step.want || c.Fence != int64(i+1) {
				t.Errorf("claim %d: attempt %d, fence %d, want attempt %d", i, c.Attempt, c.Fence, step.want)
			}
			for range 2 { // a repetition does nothing
				if err := l.Release(t.Context(), "a", c.Fence, step.reason); err != nil {
					t.Fatal(err)
				}
			}
		}
		history, err := l.History(t.Context(), "a")
		if err != nil || len(history) != 5 || history[0].Class != "engine" || history[1].Class != ReasonDraining {
			t.Errorf("history: %+v, error %v", history, err)
		}
	})
}

func TestHistoryIsBounded(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		mustCreate(t, l, "a")
		for range maxHistory + 5 {
			c := mustClaim(t, l, "a")
			if err := l.Release(t.Context(), "a", c.Fence, "engine failed"); err != nil {
				t.Fatal(err)
			}
		}
		history, err := l.History(t.Context(), "a")
		if err != nil || len(history) != maxHistory || history[0].Fence != 6 || history[0].Class != "engine_failed" {
			t.Errorf("history: %d attempts, first %+v, error %v", len(history), history[0], err)
		}
	})
}

func TestReclaimLeavesLiveClaimsAlone(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		if _, err := l.Reclaim(t.Context(), "a"); !errors.Is(err, ErrNotFound) {
			t.Errorf("Reclaim of no job: got %v, want ErrNotFound", err)
		}
		mustCreate(t, l, "a")
		c := mustClaim(t, l, "a")
		if s, err := l.Reclaim(t.Context(), "a"); s != StateRunning || err != nil {
			t.Errorf("Reclaim: state %q, error %v", s, err)
		}
		if err := l.Finish(t.Context(), "a", c.Fence, testResult("a", job.StatusOK)); err != nil {
			t.Error(err)
		}
	})
}

func TestLostTwiceIsPoison(t *testing.T) {
	onBoth(t, fast(), func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		mustCreate(t, l, "a")
		mustClaim(t, l, "a")
		reclaim(t, l, "a", StateQueued)
		mustClaim(t, l, "a")
		reclaim(t, l, "a", StateDead)
		r, err := l.Result(t.Context(), "a")
		if err != nil || r.Status != job.StatusSystemError || r.Error == nil || r.Limits != job.DefaultLimits() {
			t.Errorf("result: %+v, error %v", r, err)
		}
		e, attempts, err := l.DeadLetter(t.Context(), "a")
		if err != nil || e.Class != ClassPoison || e.Lost != 2 {
			t.Errorf("dead letter: %+v, error %v", e, err)
		}
		classes := make([]string, 0, len(attempts))
		for _, a := range attempts {
			classes = append(classes, a.Class)
		}
		if diff := cmp.Diff([]string{ClassLost, ClassLost, ClassPoison}, classes); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		if n := rdb.ZCard(t.Context(), openKey).Val(); n != 0 {
			t.Errorf("%d jobs are still open", n)
		}
	})
}

func TestBuryListsDeadLetters(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		ctx := t.Context()
		start := time.Now().Add(-time.Minute)
		for i, class := range []string{"engine", "store", "engine"} {
			id := fmt.Sprintf("dead-%d", i)
			j := testJob(id)
			j.Tenant = fmt.Sprintf("tenant-%d", i)
			if _, _, err := l.Create(ctx, j); err != nil {
				t.Fatal(err)
			}
			c := mustClaim(t, l, id)
			if err := l.Bury(ctx, id, c.Fence, class, "line one\nline two", testResult(id, job.StatusOK)); err == nil {
				t.Fatal("Bury took the result of a healthy run")
			}
			if err := l.Bury(ctx, id, c.Fence, class, "line one\nline two", testResult(id, job.StatusSystemError)); err != nil {
				t.Fatal(err)
			}
		}
		for name, tt := range map[string]struct {
			filter DeadLetterFilter
			want   []string
		}{
			"all":      {DeadLetterFilter{}, []string{"dead-2", "dead-1", "dead-0"}},
			"class":    {DeadLetterFilter{Class: "engine"}, []string{"dead-2", "dead-0"}},
			"tenant":   {DeadLetterFilter{Tenant: "tenant-1"}, []string{"dead-1"}},
			"queue":    {DeadLetterFilter{Queue: job.QueueBatch}, nil},
			"since":    {DeadLetterFilter{Since: start}, []string{"dead-2", "dead-1", "dead-0"}},
			"until":    {DeadLetterFilter{Until: start}, nil},
			"limit":    {DeadLetterFilter{Limit: 1}, []string{"dead-2"}},
			"both":     {DeadLetterFilter{Class: "store", Tenant: "tenant-1"}, []string{"dead-1"}},
			"no match": {DeadLetterFilter{Class: "store", Tenant: "tenant-2"}, nil},
		} {
			entries, err := l.DeadLetters(ctx, tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range entries {
				got = append(got, e.ID)
			}
			// Burials of the same millisecond have no order.
			if diff := cmp.Diff(tt.want, got, cmpopts.SortSlices(strings.Compare)); diff != "" && name != "limit" || len(got) != len(tt.want) {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		if e, _, err := l.DeadLetter(ctx, "dead-0"); err != nil || e.Message != "line one line two" || e.State != StateDead {
			t.Errorf("dead letter: %+v, error %v", e, err)
		}
		mustCreate(t, l, "alive")
		if _, _, err := l.DeadLetter(ctx, "alive"); !errors.Is(err, ErrNotDead) {
			t.Errorf("DeadLetter of a living job: got %v, want ErrNotDead", err)
		}
	})
}

func TestCancel(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		ctx := t.Context()
		if _, err := l.Cancel(ctx, "none"); !errors.Is(err, ErrNotFound) {
			t.Errorf("Cancel of no job: got %v, want ErrNotFound", err)
		}

		mustCreate(t, l, "queued")
		for range 2 {
			if s, err := l.Cancel(ctx, "queued"); s != StateCanceled || err != nil {
				t.Errorf("Cancel of a queued job: state %q, error %v", s, err)
			}
		}
		if r, err := l.Result(ctx, "queued"); err != nil || r.Status != job.StatusCanceled || r.Limits != job.DefaultLimits() {
			t.Errorf("result: %+v, error %v", r, err)
		}
		if _, err := l.Claim(ctx, "queued", "w"); !errors.Is(err, ErrTerminal) {
			t.Errorf("Claim of a canceled job: got %v, want ErrTerminal", err)
		}

		mustCreate(t, l, "running")
		c := mustClaim(t, l, "running")
		if s, err := l.Cancel(ctx, "running"); s != StateRunning || err != nil {
			t.Errorf("Cancel of a running job: state %q, error %v", s, err)
		}
		if canceled, err := l.Heartbeat(ctx, "running", c.Fence); !canceled || err != nil {
			t.Errorf("Heartbeat: canceled %v, error %v", canceled, err)
		}
		if err := l.Release(ctx, "running", c.Fence, "engine"); err != nil {
			t.Fatal(err)
		}
		if c = mustClaim(t, l, "running"); !c.Entry.CancelRequested {
			t.Error("the next claim does not know of the cancellation")
		}
		if err := l.Finish(ctx, "running", c.Fence, testResult("running", job.StatusCanceled)); err != nil {
			t.Fatal(err)
		}
		if e, err := l.Get(ctx, "running"); err != nil || e.State != StateCanceled {
			t.Errorf("state %q, error %v", e.State, err)
		}

		mustCreate(t, l, "finished")
		c = mustClaim(t, l, "finished")
		if err := l.Finish(ctx, "finished", c.Fence, testResult("finished", job.StatusOK)); err != nil {
			t.Fatal(err)
		}
		if s, err := l.Cancel(ctx, "finished"); s != StateFinished || err != nil {
			t.Errorf("Cancel of a finished job: state %q, error %v", s, err)
		}
		if r, err := l.Result(ctx, "finished"); err != nil || r.Status != job.StatusOK {
			t.Errorf("status %q, error %v", r.Status, err)
		}
	})
}

func TestCanceledJobOfLostWorkerIsCanceled(t *testing.T) {
	onBoth(t, fast(), func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		mustCreate(t, l, "a")
		mustClaim(t, l, "a")
		if _, err := l.Cancel(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		reclaim(t, l, "a", StateCanceled)
		if r, err := l.Result(t.Context(), "a"); err != nil || r.Status != job.StatusCanceled {
			t.Errorf("status %q, error %v", r.Status, err)
		}
	})
}

func TestHoldKeepsTheClaim(t *testing.T) {
	onBoth(t, enduring(), func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		mustCreate(t, l, "a")
		c := mustClaim(t, l, "a")
		held, stop := l.Hold(t.Context(), c)
		defer stop()
		for range 3 {
			awaitBeat(t, l, "a")
		}
		if s, err := l.Reclaim(t.Context(), "a"); s != StateRunning || err != nil {
			t.Errorf("Reclaim of a held job: state %q, error %v", s, err)
		}
		if held.Err() != nil {
			t.Errorf("the claim was given up: %v", context.Cause(held))
		}
		stop()
		stop()
		reclaim(t, newLedger(t, rdb, fast()), "a", StateQueued)
	})
}

// awaitBeat waits until a claim is renewed.
func awaitBeat(t *testing.T, l *Ledger, id string) {
	t.Helper()
	before := time.Time{}
	eventually(t, patience, func(ctx context.Context) (bool, string) {
		e, err := l.Get(ctx, id)
		if before.IsZero() {
			before = e.BeatAt
		}
		return err == nil && e.BeatAt.After(before), fmt.Sprintf("last renewed at %s, error %v", e.BeatAt, err)
	})
}

func TestHoldTellsTheHolder(t *testing.T) {
	onBoth(t, Config{BeatEvery: time.Hour, StaleAfter: 3 * time.Hour}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		mustCreate(t, l, "canceled")
		c := mustClaim(t, l, "canceled")
		held, stop := l.Hold(t.Context(), c)
		defer stop()
		// The heartbeat is an hour away, so this can only come by message.
		if _, err := l.Cancel(t.Context(), "canceled"); err != nil {
			t.Fatal(err)
		}
		awaitCause(t, held, ErrCanceled)

		quick := newLedger(t, rdb, fast())
		mustCreate(t, l, "fenced")
		c = mustClaim(t, l, "fenced")
		held, stop = quick.Hold(t.Context(), Claim{Fence: c.Fence + 1, Entry: c.Entry})
		defer stop()
		awaitCause(t, held, ErrFenced)
	})
}

func awaitCause(t *testing.T, ctx context.Context, want error) {
	t.Helper()
	select {
	case <-ctx.Done():
		if got := context.Cause(ctx); !errors.Is(got, want) {
			t.Errorf("cause: got %v, want %v", got, want)
		}
	case <-time.After(patience):
		t.Errorf("the context has not ended; want %v", want)
	}
}

func TestWait(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		ctx := t.Context()
		if _, err := l.Wait(ctx, "none"); !errors.Is(err, ErrNotFound) {
			t.Errorf("Wait for no job: got %v, want ErrNotFound", err)
		}
		const jobs, waiters = 20, 200
		for i := range jobs {
			mustCreate(t, l, fmt.Sprintf("job-%d", i))
		}
		var wg sync.WaitGroup
		for i := range waiters {
			id := fmt.Sprintf("job-%d", i%jobs)
			wg.Go(func() {
				if r, err := l.Wait(ctx, id); err != nil || r.ID != id {
					t.Errorf("Wait(%s): id %q, error %v", id, r.ID, err)
				}
			})
		}
		for i := range jobs {
			id := fmt.Sprintf("job-%d", i)
			switch i % 3 {
			case 0:
				if _, err := l.Cancel(ctx, id); err != nil {
					t.Fatal(err)
				}
			case 1:
				c := mustClaim(t, l, id)
				if err := l.Bury(ctx, id, c.Fence, "engine", "m", testResult(id, job.StatusSystemError)); err != nil {
					t.Fatal(err)
				}
			default:
				c := mustClaim(t, l, id)
				if err := l.Finish(ctx, id, c.Fence, testResult(id, job.StatusOK)); err != nil {
					t.Fatal(err)
				}
			}
		}
		wg.Wait()
		if r, err := l.Wait(ctx, "job-0"); err != nil || r.Status != job.StatusCanceled {
			t.Errorf("Wait for a finished job: status %q, error %v", r.Status, err)
		}
		l.hub.mu.Lock()
		defer l.hub.mu.Unlock()
		if n := len(l.hub.listeners); n != 0 {
			t.Errorf("%d listeners are left", n)
		}
	})
}

func TestWaitEnds(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		mustCreate(t, l, "a")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := l.Wait(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait after the deadline: got %v", err)
		}
		closed := make(chan error, 1)
		go func() {
			_, err := l.Wait(t.Context(), "a")
			closed <- err
		}()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-closed:
			if !errors.Is(err, ErrClosed) {
				t.Errorf("Wait after Close: got %v, want ErrClosed", err)
			}
		case <-time.After(patience):
			t.Error("Wait goes on after Close")
		}
	})
}

func TestEndings(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ids, err := l.Endings(ctx)
		if err != nil {
			t.Fatal(err)
		}
		// Published again and again, because the subscription may not stand yet.
		eventually(t, patience, func(ctx context.Context) (bool, string) {
			rdb.Publish(ctx, doneChannel, "a")
			select {
			case id := <-ids:
				return id == "a", id
			default:
				return false, "nothing"
			}
		})
		cancel()
		eventually(t, patience, func(context.Context) (bool, string) {
			for {
				select {
				case _, ok := <-ids:
					if !ok {
						return true, ""
					}
				default:
					return false, "still open"
				}
			}
		})
	})
}

func TestConfigReportsEveryFault(t *testing.T) {
	t.Parallel()
	err := Config{OpenTTL: -1, DeadTTL: -1, BeatEvery: time.Second, StaleAfter: time.Second, MaxLost: -1, MaxResultBytes: -1}.Validate()
	for _, field := range []string{"OpenTTL", "DeadTTL", "StaleAfter", "MaxLost", "MaxResultBytes"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("no fault of %s in: %v", field, err)
		}
	}
}

// Who watches a job hears that it was taken from a dead worker; nobody has to look for it.
func TestReclaimIsTold(t *testing.T) {
	onBoth(t, fast(), func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		mustCreate(t, l, "a")
		mustClaim(t, l, "a")
		sub := rdb.Subscribe(t.Context(), stateChannel)
		defer func() { _ = sub.Close() }()
		if _, err := sub.Receive(t.Context()); err != nil { // the subscription is there
			t.Fatal(err)
		}
		reclaim(t, l, "a", StateQueued)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if m, err := sub.ReceiveMessage(ctx); err != nil || m.Payload != "a" {
			t.Errorf("got message %v, error %v, want news of the job", m, err)
		}
	})
}
