package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/detach"
)

// How long a name is held after its worker's last sign of life, how often there is one, and how often somebody who
// wants the name looks for it.
const (
	nameTTL  = 8 * time.Second
	nameBeat = 2 * time.Second
	nameLook = 250 * time.Millisecond
)

// heldName is a worker's hold on its name. At its start a worker removes the sandboxes that an earlier
// life of it has left, which it knows by the name: of two that live, one would remove those of the other.
type heldName struct {
	rdb         redis.UniversalClient
	fleet, name string
	token       string
	log         *zap.Logger
}

func newHeldName(rdb redis.UniversalClient, fleet, name string, log *zap.Logger) *heldName {
	return &heldName{rdb: rdb, fleet: fleet, name: name, token: rand.Text(), log: log}
}

// key holds the token of the worker that has the name, as long as it shows signs of life.
func (h *heldName) key() string { return "tf:worker:" + h.fleet + ":" + h.name }

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
func (h *heldName) try(ctx context.Context) (time.Duration, error) {
	left, err := holdScript.Run(ctx, h.rdb, []string{h.key()}, h.token, nameTTL.Milliseconds()).Int64()
	return time.Duration(left) * time.Millisecond, err
}

// take takes the name. It waits for the end of one that a dead worker held, and fails as soon as its holder shows that it lives.
func (h *heldName) take(ctx context.Context) error {
	before := nameTTL + time.Second // more than is ever left
	for tries := 0; ; tries++ {
		left, err := h.try(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("take the name %s: %w", h.name, err)
		case left == 0:
			return nil
		case left > before:
			return cli.Failf(cli.CodeFailed, "a worker called %s runs in fleet %s; of two with one name, each would remove the other's sandboxes. Stop that one, or give this one another --name", h.name, h.fleet)
		case tries == 0:
			h.log.Info("a worker of this name was alive a moment ago; waiting until it is gone", zap.Duration("at_most", left))
		}
		before = left
		select {
		case <-ctx.Done():
			return fmt.Errorf("take the name %s: %w", h.name, context.Cause(ctx))
		case <-time.After(nameLook):
		}
	}
}

// run keeps the name until ctx ends. It fails when another worker has it, which can come about only when this one was
// silent for long: the other has removed our sandboxes then.
func (h *heldName) run(ctx context.Context) error {
	ticker := time.NewTicker(nameBeat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		switch left, err := h.try(ctx); {
		case err != nil:
			h.log.Debug("keep the name", zap.Error(err)) // a Redis that is away is told of by others, and comes back
		case left > 0:
			return cli.Failf(cli.CodeFailed, "another worker in fleet %s has taken the name %s while this one showed no sign of life; give each its own --name", h.fleet, h.name)
		}
	}
}

// drop gives the name up, so that the next life of this worker starts at once. It ends by itself else.
func (h *heldName) drop(ctx context.Context) {
	ctx, cancel := detach.Context(ctx, time.Second)
	defer cancel()
	_ = dropScript.Run(ctx, h.rdb, []string{h.key()}, h.token).Err()
}
