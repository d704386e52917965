package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
)

// What a worker may have more at the end than at the start: connections that are kept for later, and memory that
// the runtime has not yet given back.
const (
	moreGoroutines = 12
	moreBytes      = 64 << 20
)

// awaitRest waits until the workers are at rest again: as large as at the start, and without containers of the dead.
func (c *controller) awaitRest() {
	c.t.Helper()
	for _, s := range c.seats {
		s.awaitReady()
	}
	began := time.Now()
	gone, state := until(c.t, patience, time.Second, func(ctx context.Context) (bool, string) {
		found, err := c.engine.containers(ctx, c.fleet)
		left := slices.DeleteFunc(found, c.owned)
		return err == nil && len(left) == 0, fmt.Sprint(left, err)
	})
	if !gone {
		c.t.Errorf("containers of dead workers are left: %s", state)
	}
	c.say("nothing of dead workers is left, after %s", time.Since(began).Round(time.Second))
	c.awaitTasks()
	for _, s := range c.seats {
		calm, state := until(c.t, patience, time.Second, func(ctx context.Context) (bool, string) {
			l, err := s.measure(ctx)
			calm := err == nil && l.slotsUsed == 0 && l.quarantined == 0 &&
				l.goroutines <= c.start.goroutines+moreGoroutines && l.residentBytes <= c.start.residentBytes+moreBytes
			return calm, fmt.Sprintf("%s: goroutines %.0f (%.0f at the start), memory %.0f MiB (%.0f), slots %.0f, quarantine %.0f, error %v",
				s.current().name, l.goroutines, c.start.goroutines, l.residentBytes/(1<<20), c.start.residentBytes/(1<<20), l.slotsUsed, l.quarantined, err)
		})
		c.say("%s", state)
		if !calm {
			c.t.Errorf("a worker is not as at the start: %s", state)
		}
	}
}

// awaitTasks waits until asynq has no active task. A worker that was killed between the end of a job and its
// acknowledgement leaves one, which asynq takes back when its lease has been over for a while.
func (c *controller) awaitTasks() {
	c.t.Helper()
	idle, state := until(c.t, patience, time.Second, func(ctx context.Context) (bool, string) {
		active, err := c.rdb.Keys(ctx, "asynq:{*}:active").Result() // a list without members does not exist
		return err == nil && len(active) == 0, fmt.Sprint(active, err)
	})
	if !idle {
		c.t.Errorf("tasks of dead workers are left: %s", state)
	}
}

// owned tells whether a container belongs to a worker that lives.
func (c *controller) owned(found container) bool {
	return slices.ContainsFunc(c.seats, func(s *seat) bool {
		w := s.current()
		// The label has whole seconds.
		return w.name == found.worker() && !found.launched().Before(w.started.Truncate(time.Second))
	})
}

// stopWorkers ends all workers in good order.
func (c *controller) stopWorkers() {
	c.t.Helper()
	var told []*incumbent
	for _, s := range c.seats {
		close(s.closed)
		w, err := s.end(syscall.SIGTERM)
		c.check(err)
		told = append(told, w)
	}
	for _, w := range told {
		c.awaitEnd(w)
	}
}

// count is one line of what the examination prints.
type count struct {
	what string
	n    int
	// want is -1 when any number will do.
	want     int
	examples []string
}

// add counts something that should not be.
func (n *count) add(format string, args ...any) {
	n.n++
	if len(n.examples) < 20 {
		n.examples = append(n.examples, fmt.Sprintf(format, args...))
	}
}

// examine looks at everything that is left, prints the accounts, and fails the test if they do not balance.
func (c *controller) examine() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	counts := c.examineJobs(ctx)
	counts = append(counts, c.examineRedis(ctx)...)
	containers := count{what: "containers left"}
	found, err := c.engine.containers(ctx, c.fleet)
	c.check(err)
	for _, left := range found {
		containers.add("%.12s %s of %s", left.ID, left.Status, left.worker())
	}
	// An engine that crashes while it starts a container may know nothing of it afterwards. Such a sandbox, which
	// waits for a job that never comes, ends itself in the end.
	shims := count{what: "containers that the engine has forgotten", n: len(c.engine.shims()), want: -1}
	counts = append(counts, containers, shims)
	for _, n := range counts {
		c.t.Logf("%-40s %5d", n.what, n.n)
		if n.want >= 0 && n.n != n.want {
			c.t.Errorf("%s: got %d, want %d: %s", n.what, n.n, n.want, strings.Join(n.examples, "; "))
		}
	}
}

// examineJobs compares what became of each job with what had to.
func (c *controller) examineJobs(ctx context.Context) []count {
	tasks := c.submitter.tasks()
	finished, dead := count{what: "finished", want: -1}, count{what: "dead letters", want: -1}
	twice, differ := count{what: "results stored twice"}, count{what: "results that differ from the expected"}
	retried, unlisted := count{what: "attempts beyond the first", want: -1}, count{what: "dead letters that are not listed"}
	var ends []time.Time
	classes, listed := map[string]int{}, map[string]bool{}
	letters, err := c.book.DeadLetters(ctx, ledger.DeadLetterFilter{Limit: len(tasks) + 1})
	c.check(err)
	for _, e := range letters {
		listed[e.ID] = true
	}
	for _, k := range tasks {
		id := k.job.ID
		e, err := c.book.Get(ctx, id)
		c.check(err)
		history, err := c.book.History(ctx, id)
		c.check(err)
		r, err := c.book.Result(ctx, id)
		ends = append(ends, e.FinishedAt)
		stored := 0
		for _, a := range history {
			if job.Status(a.Class).Valid() || e.State == ledger.StateDead && a.Class == e.Class && a.Fence == e.Fence {
				stored++
			}
			if e.Attempts > 1 || e.Lost > 0 {
				classes[a.Class]++
			}
		}
		retried.n += max(len(history)-1, 0)
		if heard := c.listener.times(id); stored != 1 || heard > 1 {
			twice.add("%s: %d in its history, heard of %d times: %v", id, stored, heard, history)
		}
		switch {
		case err != nil:
			differ.add("%s: %v", id, err)
		case e.State == ledger.StateDead:
			dead.add("%s", id)
			c.t.Logf("dead letter %s: %s: %s", id, e.Class, e.Message)
			if !listed[id] {
				unlisted.add("%s", id)
			}
		case e.State == ledger.StateFinished:
			finished.add("%s", id)
			if wrong := k.wrong(r); wrong != "" {
				differ.add("%s: %s; %v", id, wrong, history)
			}
		}
	}
	c.sayLongestPause(ends)
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		c.t.Logf("attempts of jobs with several: %-12s %d", class, classes[class])
	}
	accepted := count{what: "accepted", n: len(tasks), want: finished.n + dead.n}
	return []count{accepted, finished, dead, unlisted, retried, twice, differ}
}

// sayLongestPause tells when the fleet did not get on.
func (c *controller) sayLongestPause(ends []time.Time) {
	slices.SortFunc(ends, time.Time.Compare)
	before, longest := c.began, time.Duration(0)
	from := c.began
	for _, end := range ends {
		if end.Sub(before) > longest {
			from, longest = before, end.Sub(before)
		}
		before = end
	}
	c.say("no job ended for at most %s, from %.1fs on", longest.Round(time.Millisecond), from.Sub(c.began).Seconds())
}

// examineRedis looks for what should not stand in Redis any more.
func (c *controller) examineRedis(ctx context.Context) []count {
	claims, eternal, orphans := count{what: "claims left"}, count{what: "keys without a TTL"}, count{what: "tasks that nobody will delete"}
	keys := c.rdb.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		key := keys.Val()
		rest, ours := strings.CutPrefix(key, "tf:")
		ours = ours || strings.HasPrefix(key, "{tf:")
		ttl, err := c.rdb.PTTL(ctx, key).Result()
		c.check(err)
		switch {
		case ours && ttl < 0 || strings.HasPrefix(key, "chaos:"):
			eternal.add("%s", key)
		case strings.HasPrefix(rest, "{") && strings.HasSuffix(rest, "}"):
			h, err := c.rdb.HMGet(ctx, key, "state", "claim").Result()
			c.check(err)
			if len(h) == 2 && (h[0] == "running" || h[1] != nil) {
				claims.add("%s %v", key, h)
			}
		case strings.HasSuffix(key, "}:active"), strings.HasSuffix(key, "}:lease"), key == "tf:open":
			claims.add("%s", key) // a list without members does not exist
		case strings.HasPrefix(key, "asynq:{") && strings.Contains(key, "}:t:"):
			c.examineTask(ctx, key, &orphans)
		}
	}
	c.check(keys.Err())
	return []count{claims, eternal, orphans}
}

// examineTask looks whether asynq will delete a task: it must be complete or in the archive, and listed there.
func (c *controller) examineTask(ctx context.Context, key string, orphans *count) {
	prefix, id, _ := strings.Cut(key, "}:t:")
	prefix += "}:"
	state, err := c.rdb.HGet(ctx, key, "state").Result()
	if err == nil && (state == "completed" || state == "archived") {
		err = c.rdb.ZScore(ctx, prefix+state, id).Err()
	} else if err == nil {
		err = fmt.Errorf("it is %s", state)
	}
	if err != nil {
		orphans.add("%s: %v", key, err)
	}
}
