package roster

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/detach"
	"github.com/execra/tracefleet/internal/job"
)

// How long a name is held after its worker's last sign of life, how often there is one, and how often somebody who
// wants the name looks for it.
const (
	nameTTL  = 8 * time.Second
	nameBeat = 2 * time.Second
	nameLook = 250 * time.Millisecond
)

// leaveTimeout bounds what a worker says when it goes.
const leaveTimeout = time.Second

// Member is a live worker's place in the roster. It is safe for concurrent use.
type Member struct {
	rdb         redis.UniversalClient
	fleet, name string
	token       string
	log         *zap.Logger

	beat time.Duration // between two signs of life
	stop context.CancelFunc
	done chan struct{} // closed when the name is kept no more
	lost error         // set before done is closed, when another has the name
	tell chan struct{} // told when there is an offer, which is not to wait for the next sign of life

	mu    sync.Mutex
	offer string // the member of the index, empty before there is one
}

// Join takes the name for a worker of a fleet, and keeps it until Leave. It waits for the end of a name that a dead worker
// held, and fails with a *cli.Error that says what to do as soon as its holder shows that it lives. ctx bounds the taking only.
func Join(ctx context.Context, rdb redis.UniversalClient, fleet, name string, log *zap.Logger) (*Member, error) {
	return join(ctx, rdb, fleet, name, log, nameBeat)
}

func join(ctx context.Context, rdb redis.UniversalClient, fleet, name string, log *zap.Logger, beat time.Duration) (*Member, error) {
	m := &Member{
		rdb: rdb, fleet: fleet, name: name, token: rand.Text(), log: log, beat: beat, done: make(chan struct{}), tell: make(chan struct{}, 1),
	}
	if err := m.take(ctx); err != nil {
		return nil, err
	}
	// Whatever else the worker does before it is ready may take longer than a name is held.
	ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	go m.keep(ctx)
	return m, nil
}

// Run waits until ctx ends. It fails when another worker has the name, which can come about only when this one was
// silent for long: the other has removed our sandboxes then.
func (m *Member) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-m.done:
		return m.lost
	}
}

// Leave gives up the name and what was offered, so that the next life of this worker starts at once. When Redis is away both
// end by themselves. It may be called more than once.
func (m *Member) Leave(ctx context.Context) {
	m.stop()
	<-m.done
	ctx, cancel := detach.Context(ctx, leaveTimeout)
	defer cancel()
	m.withdraw(ctx)
	_ = dropScript.Run(ctx, m.rdb, []string{m.key()}, m.token).Err()
}

// Offer says that this worker takes jobs with limits up to maxima, from now on until Leave. It does not wait for Redis.
func (m *Member) Offer(maxima job.Limits) error {
	offer, err := encode(m.fleet, m.name, maxima)
	if err != nil {
		return fmt.Errorf("offer to take jobs: %w", err)
	}
	m.mu.Lock()
	m.offer = offer
	m.mu.Unlock()
	select {
	case m.tell <- struct{}{}:
	default: // The last one has not been told yet: this one is, in its place.
	}
	return nil
}

// key holds the token of the worker that has the name, as long as it shows signs of life.
func (m *Member) key() string { return "tf:worker:" + m.fleet + ":" + m.name }

// holdScript takes or renews the hold: ARGV token, ttl ms. It gives 0, or for how many milliseconds another has the name.
var holdScript = redis.NewScript(`
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return math.max(1, redis.call('PTTL', KEYS[1])) end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 0
`)

// dropScript gives the hold up: ARGV token.
var dropScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`)

// try takes or renews the hold, and returns how long another has the name if nothing is heard of it; 0 when it is ours.
func (m *Member) try(ctx context.Context) (time.Duration, error) {
	left, err := holdScript.Run(ctx, m.rdb, []string{m.key()}, m.token, nameTTL.Milliseconds()).Int64()
	return time.Duration(left) * time.Millisecond, err
}

func (m *Member) take(ctx context.Context) error {
	before := nameTTL + time.Second // more than is ever left
	for tries := 0; ; tries++ {
		left, err := m.try(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("take the name %s: %w", m.name, err)
		case left == 0:
			return nil
		case left > before:
			return cli.Failf(cli.CodeFailed, "a worker called %s runs in fleet %s; of two with one name, each would remove the other's sandboxes. Stop that one, or give this one another --name", m.name, m.fleet)
		case tries == 0:
			m.log.Info("a worker of this name was alive a moment ago; waiting until it is gone", zap.Duration("at_most", left))
		}
		before = left
		select {
		case <-ctx.Done():
			return fmt.Errorf("take the name %s: %w", m.name, context.Cause(ctx))
		case <-time.After(nameLook):
		}
	}
}

// keep shows signs of life until ctx ends or another has the name.
func (m *Member) keep(ctx context.Context) {
	defer close(m.done)
	ticker := time.NewTicker(m.beat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.tell:
		case <-ticker.C:
		}
		switch left, err := m.try(ctx); {
		case err != nil:
			m.log.Debug("keep the name", zap.Error(err)) // a Redis that is away is told of by others, and comes back
		case left > 0:
			m.lost = cli.Failf(cli.CodeFailed, "another worker in fleet %s has taken the name %s while this one showed no sign of life; give each its own --name", m.fleet, m.name)
			return
		}
		if err := m.announce(ctx); err != nil {
			m.log.Debug("tell what jobs this worker takes", zap.Error(err))
		}
	}
}
