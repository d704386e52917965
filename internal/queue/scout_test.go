package queue

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/redistest"
)

// A paused queue has tasks and hands out none. That must not make a worker ask again and again.
func TestPausedQueueIsAskedNowAndThen(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	if err := rdb.Set(t.Context(), "asynq:{default:0}:paused", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	p := newProducer(t, rdb, Config{})
	mustEnqueue(t, p, "a")
	runs := make(chan string, 1)
	consume(t, rdb, Config{}, nil, func(_ context.Context, d Delivery) (Report, error) {
		runs <- d.Envelope.ID
		return Report{}, nil
	})
	eventually(t, patience, func() (bool, string) { return evals(t, rdb) > 1, "no dequeue" })
	if n := evalRate(t, rdb, 2*time.Second); n > 50 {
		t.Errorf("%.1f scripts a second", n)
	}
	if len(runs) != 0 {
		t.Error("a task of a paused queue ran")
	}
	if err := rdb.Del(t.Context(), "asynq:{default:0}:paused").Err(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-runs:
	case <-time.After(patience):
		t.Error("the queue goes on and its task does not run")
	}
}

// A token says where a task is, and may be wrong: the task is gone, or elsewhere, or the token means nothing.
func TestTokensMayBeWrong(t *testing.T) {
	t.Parallel()
	for name, token := range map[string]string{"empty queue": "batch:3", "no queue": "1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, redistest.Options{}).Client()
			p := newProducer(t, rdb, Config{})
			runs := make(chan string, 10)
			consume(t, rdb, Config{}, nil, func(_ context.Context, d Delivery) (Report, error) {
				runs <- d.Envelope.ID
				return Report{}, nil
			})
			for _, id := range []string{"a", "b", "c"} {
				if err := rdb.LPush(t.Context(), wakeKey, token, token, token).Err(); err != nil {
					t.Fatal(err)
				}
				mustEnqueue(t, p, id)
				select {
				case got := <-runs:
					if got != id {
						t.Errorf("got %s, want %s", got, id)
					}
				case <-time.After(patience):
					t.Fatalf("%s was not delivered", id)
				}
			}
		})
	}
}

func TestChoiceFollowsTheWeights(t *testing.T) {
	t.Parallel()
	s := newScout(nil, map[string]int{"a": 6, "b": 3, "c": 1, "empty": 100}, nil, *allRemedies(), nil)
	s.known = true
	for _, q := range s.all {
		q.full = q.name != "empty"
	}
	s.round()
	const n = 10_000
	got := map[string]int{}
	for _, q := range s.choose(n) {
		got[q.name]++
	}
	for name, weight := range map[string]int{"a": 6, "b": 3, "c": 1, "empty": 0} {
		if want := n * weight / 10; got[name] < want-n/20 || got[name] > want+n/20 {
			t.Errorf("%s was chosen %d times, want about %d", name, got[name], want)
		}
	}
	for len(s.left) > 0 {
		q := s.choose(1)[0]
		s.vain(q)
		if got[q.name] == 0 {
			t.Errorf("%s was chosen again", q.name)
		}
		delete(got, q.name)
	}
	if choice := s.choose(5); len(choice) != 0 {
		t.Errorf("%d queues were chosen though all were in vain", len(choice))
	}
}

// How many slots are open is less than nothing when more are lost, or in asynq's hands, than there are.
func TestChoiceWithoutAnOpenSlot(t *testing.T) {
	t.Parallel()
	s := newScout(nil, map[string]int{"a": 1}, nil, *allRemedies(), nil)
	s.round()
	for _, n := range []int{-2, -1, 0, 1} {
		if choice := s.choose(n); len(choice) != 1 {
			t.Errorf("%d slots: %d queues were chosen, want 1", n, len(choice))
		}
	}
}

func TestReportsAreBounded(t *testing.T) {
	t.Parallel()
	r := newReports(nil)
	for i := range 3 * maxReports {
		id := strconv.Itoa(i)
		r.put(id, []byte(id))
		if got := string(r.take(id)); i%2 == 0 && got != id {
			t.Fatalf("report %s: got %q", id, got)
		}
		r.put("lost "+id, nil)
	}
	if len(r.by) > maxReports {
		t.Errorf("%d reports wait", len(r.by))
	}
}
