package chaos_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/execra/tracefleet/internal/redistest"
)

// fault is something that breaks.
type fault struct {
	name string
	// lasts is about how long it takes, so that jobs come all the while.
	lasts time.Duration
	do    func(c *controller) string
}

// faults are all that can happen. Each mends what it has broken, and says what it did.
func faults() []fault {
	return []fault{
		{"kill-worker", time.Second, (*controller).killWorker},
		{"stop-worker", *workerStop, (*controller).stopWorker},
		{"restart-redis", 4 * time.Second, (*controller).restartRedis},
		{"cut-redis", 7 * time.Second, (*controller).cutRedis},
		{"fill-redis", 5 * time.Second, (*controller).fillRedis},
		{"kill-engine", *engineDown/2 + 2*time.Second, (*controller).killEngine},
		{"stop-engine", *engineStop, (*controller).stopEngine},
		{"kill-containers", 3 * time.Second, (*controller).killContainers},
		{"roll-workers", 8 * time.Second, (*controller).rollWorkers},
	}
}

func (c *controller) anySeat() *seat { return c.seats[c.random.IntN(len(c.seats))] }

// between is a random time.
func (c *controller) between(least, most time.Duration) time.Duration {
	return least + time.Duration(c.random.Int64N(int64(most-least)+1))
}

func (c *controller) killWorker() string {
	s := c.anySeat()
	w, err := s.end(syscall.SIGKILL)
	c.check(err)
	// Whoever is told to end next must not be the dead one once more.
	s.awaitNext(w)
	return w.name
}

// stopWorker has a worker stand still, and go on as if nothing had been.
func (c *controller) stopWorker() string {
	w := c.anySeat().current()
	c.check(w.signal(syscall.SIGSTOP))
	pause(c.ctx, *workerStop)
	c.check(w.signal(syscall.SIGCONT))
	return w.name
}

func (c *controller) restartRedis() string {
	how := "SIGTERM"
	if c.random.IntN(2) == 0 {
		how = "SIGKILL"
		c.redis.Kill()
	} else {
		c.redis.Stop()
	}
	down := c.between(time.Second, 6*time.Second)
	pause(c.ctx, down)
	c.redis.Restart()
	// A client that could not connect says so for a moment more, and the next fault may come at once.
	if back, state := until(c.t, patience, 50*time.Millisecond, func(ctx context.Context) (bool, string) {
		err := c.rdb.Ping(ctx).Err()
		return err == nil, fmt.Sprint(err)
	}); !back {
		c.t.Errorf("Redis did not come back: %s", state)
	}
	return fmt.Sprintf("by %s, for %s", how, down.Round(time.Millisecond))
}

// cutRedis cuts the way of one worker to Redis at the moment at which it stores a result.
func (c *controller) cutRedis() string {
	s := c.anySeat()
	loss, lost := redistest.LoseCommand, "command"
	if c.random.IntN(2) == 0 {
		loss, lost = redistest.LoseAnswer, "answer"
	}
	// The script that ends a job has its new state among its arguments.
	sprung := s.way.CutAt("\r\n$8\r\nfinished\r\n", loss)
	defer s.way.Mend()
	moment := time.NewTimer(10 * time.Second)
	defer moment.Stop()
	select {
	case <-sprung:
	case <-moment.C:
		lost = "nothing: no job ended"
		s.way.Cut()
	}
	pause(c.ctx, 5*time.Second)
	return fmt.Sprintf("%s, lost: %s", s.current().name, lost)
}

// fillRedis fills Redis up to its limit, and frees it again.
func (c *controller) fillRedis() string {
	const key, chunk = "chaos:fill", 256 << 10
	used, err := c.usedMemory()
	c.check(err)
	c.check(c.rdb.ConfigSet(c.ctx, "maxmemory", fmt.Sprint(used+8<<20)).Err())
	n := 0
	for {
		err := c.rdb.Append(c.ctx, key, strings.Repeat("x", chunk)).Err()
		if err != nil {
			break
		}
		n++
	}
	full := c.between(2*time.Second, 6*time.Second)
	pause(c.ctx, full)
	c.check(c.rdb.Del(c.ctx, key).Err())
	c.check(c.rdb.ConfigSet(c.ctx, "maxmemory", fmt.Sprint(maxMemory)).Err())
	return fmt.Sprintf("with %d kB, for %s", n*chunk>>10, full.Round(time.Millisecond))
}

func (c *controller) killEngine() string {
	down := c.between(*engineDown/16, *engineDown)
	c.engine.kill()
	pause(c.ctx, down)
	c.engine.start()
	return fmt.Sprintf("for %s", down.Round(time.Millisecond))
}

func (c *controller) stopEngine() string {
	c.check(c.engine.daemon.signal(syscall.SIGSTOP))
	pause(c.ctx, *engineStop)
	c.check(c.engine.daemon.signal(syscall.SIGCONT))
	return engineStop.String()
}

// killContainers kills or removes half of the containers behind the backs of their workers, several times.
func (c *controller) killContainers() string {
	var victims []string
	for range 3 {
		found, err := c.engine.containers(c.ctx, c.fleet)
		c.check(err)
		for _, victim := range found {
			method, path, how := http.MethodPost, "/containers/"+victim.ID+"/kill", "killed"
			switch c.random.IntN(8) {
			case 0, 1, 2, 3:
				continue
			case 4:
				method, path, how = http.MethodDelete, "/containers/"+victim.ID+"?force=1", "removed"
			}
			if c.engine.ask(c.ctx, method, path, nil) == nil { // it may have ended by itself
				victims = append(victims, fmt.Sprintf("%s %.12s", how, victim.ID))
			}
		}
		pause(c.ctx, c.between(100*time.Millisecond, 2*time.Second))
	}
	return strings.Join(victims, ", ")
}

// rollWorkers restarts every worker in turn.
func (c *controller) rollWorkers() string {
	var names []string
	for _, s := range c.seats {
		w, err := s.end(syscall.SIGTERM)
		c.check(err)
		c.awaitEnd(w)
		s.awaitReady()
		names = append(names, w.name)
	}
	return strings.Join(names, ", ")
}

// awaitEnd waits for a worker that was told to end, which it must do in good order.
func (c *controller) awaitEnd(w *incumbent) {
	c.t.Helper()
	if !w.wait(patience) {
		c.t.Errorf("worker %s did not end\n%s", w.name, tail(w.log.String(), 30))
		c.check(w.signal(syscall.SIGKILL))
		<-w.ended
		return
	}
	// One that was told before it was ready may not have got that far.
	if code := w.cmd.ProcessState.ExitCode(); code != 0 && w.ready() {
		c.t.Errorf("worker %s ended with %d after SIGTERM, want 0\n%s", w.name, code, tail(w.log.String(), 30))
	}
}

func (c *controller) usedMemory() (int64, error) {
	info, err := c.rdb.Info(c.ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	var used int64
	for line := range strings.Lines(info) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); found {
			_, err = fmt.Sscan(text, &used)
		}
	}
	return used, err
}

// settle gives the fleet a moment after a fault, of random length, and none now and then.
func (c *controller) settle(ctx context.Context) {
	if c.random.IntN(3) > 0 {
		pause(ctx, c.between(0, 2*settleTime))
	}
}

// settleTime is how long the fleet is left alone after a fault, on average.
const settleTime = 2 * time.Second
