package queue

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxConvoy bounds how many commands go together.
	maxConvoy = 64
	// maxRiderBytes bounds a command that goes with others: they wait for it.
	maxRiderBytes = 64 << 10
	// convoyTimeout bounds the attempts to get a group through. Whoever has less time does not wait for its end.
	convoyTimeout = 10 * time.Second
)

// convoy sits in a Redis client. Scripts that come while another one is under way wait for it, and go together in the next round
// trip. A busy worker or server spends most of its time for Redis, and Redis most of its own, on sending and receiving; this
// way a few do it for many, and the busier everything is, the more go together. What comes alone goes at once.
//
// To whom a script belongs makes no difference to its answer, its error, or its deadline. It is not for a cluster, where
// a node that is away would keep waiting what is for the others. It is safe for concurrent use.
type convoy struct {
	client *redis.Client

	mu      sync.Mutex
	busy    bool // something is under way
	waiting []*rider
}

// rider is what one caller has to send: commands of its own, for if it leaves early the others' are still written to.
type rider struct {
	cmds []redis.Cmder
	done chan struct{}
}

var _ redis.Hook = (*convoy)(nil)

// isConvoy in a context marks a pipeline that is a group already.
type isConvoy struct{}

// DialHook changes nothing.
func (c *convoy) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook lets scripts go together.
func (c *convoy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !isScript(cmd) || !rides(cmd) {
			return next(ctx, cmd)
		}
		return c.ride(ctx, []redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook lets pipelines of commands without a type go with scripts.
func (c *convoy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if ctx.Value(isConvoy{}) != nil {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds {
			if !rides(cmd) {
				return next(ctx, cmds)
			}
		}
		return c.ride(ctx, cmds, func() error { return next(ctx, cmds) })
	}
}

// rides tells whether a command may go with others: it is small, and its answer can be handed over.
func rides(cmd redis.Cmder) bool {
	if _, ok := cmd.(*redis.Cmd); !ok {
		return false
	}
	size := 0
	for _, arg := range cmd.Args() {
		switch v := arg.(type) {
		case string:
			size += len(v)
		case []byte:
			size += len(v)
		}
	}
	return size <= maxRiderBytes
}

// ride sends commands: alone, when nothing is under way, or with others.
func (c *convoy) ride(ctx context.Context, cmds []redis.Cmder, alone func() error) error {
	c.mu.Lock()
	if !c.busy || ctx.Err() != nil {
		mine := !c.busy
		c.busy = true
		c.mu.Unlock()
		if mine {
			defer c.next()
		}
		return alone()
	}
	r := &rider{cmds: make([]redis.Cmder, len(cmds)), done: make(chan struct{})}
	for i, cmd := range cmds {
		r.cmds[i] = redis.NewCmd(ctx, cmd.Args()...)
	}
	c.waiting = append(c.waiting, r)
	c.mu.Unlock()
	select {
	case <-r.done:
		return r.handOver(cmds)
	case <-ctx.Done():
		// As when an answer is lost: nobody knows whether it was done.
		err := context.Cause(ctx)
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return err
	}
}

// handOver gives the answers to the commands that they are for, and returns the first error.
func (r *rider) handOver(cmds []redis.Cmder) (first error) {
	for i, cmd := range cmds {
		from, to := r.cmds[i].(*redis.Cmd), cmd.(*redis.Cmd)
		to.SetVal(from.Val())
		to.SetErr(from.Err())
		if first == nil {
			first = from.Err()
		}
	}
	return first
}

// next lets go who has come while something was under way.
func (c *convoy) next() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy = len(c.waiting) > 0; c.busy {
		go c.drive()
	}
}

// drive sends group after group until nobody waits.
func (c *convoy) drive() {
	for {
		c.mu.Lock()
		group, n := c.waiting, 0
		var cmds []redis.Cmder
		for n < len(group) && len(cmds) < maxConvoy {
			cmds = append(cmds, group[n].cmds...)
			n++
		}
		c.waiting = append([]*rider(nil), group[n:]...)
		c.busy = n > 0
		c.mu.Unlock()
		if n == 0 {
			return
		}
		c.cross(cmds)
		for _, r := range group[:n] {
			close(r.done)
		}
	}
}

// cross sends a group and waits for all its answers.
func (c *convoy) cross(cmds []redis.Cmder) {
	ctx, cancel := context.WithTimeout(context.Background(), convoyTimeout)
	defer cancel()
	_, err := c.client.Pipelined(context.WithValue(ctx, isConvoy{}, true), func(pipe redis.Pipeliner) error {
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd) // it is only put into the pipeline
		}
		return nil
	})
	var answer redis.Error
	if err == nil || errors.As(err, &answer) {
		return
	}
	for _, cmd := range cmds {
		if cmd.Err() != nil {
			return
		}
	}
	// The client does not tell commands that it could not connect.
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
}
