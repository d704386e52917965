package roster

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
)

const (
	offersKey = "tf:workers"
	// offerTTL is how long an offer stands after its worker's last sign of life. It is longer than that of a name: a Redis or a
	// worker that stutters shall not change what the fleet promises.
	offerTTL = 30 * time.Second
	// maxLimits bounds how many different limits are read, and maxLimitsBytes each: the workers of a fleet have few.
	maxLimits, maxLimitsBytes = 1000, 4096
	// lookEvery is how often a Follower looks.
	lookEvery = 5 * time.Second
)

// encode writes an offer as the index holds it.
func encode(fleet, name string, maxima job.Limits) (string, error) {
	limits, err := json.Marshal(maxima)
	return fleet + " " + name + " " + string(limits), err
}

// decode reads the limits of an offer.
func decode(limits string) (job.Limits, error) {
	var maxima job.Limits
	if err := json.Unmarshal([]byte(limits), &maxima); err != nil {
		return maxima, err
	}
	return maxima, maxima.Validate(job.MaxLimits())
}

// offerScript renews an offer and forgets those that are over: ARGV offer, ttl ms.
var offerScript = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 0
`)

// offersScript gives how many offers stand, and then each of their limits once, so that many workers with the same
// limits do not hide those of one more: ARGV how many limits at most, and of how many bytes each.
var offersScript = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local offers = redis.call('ZRANGEBYSCORE', KEYS[1], string.format('%.0f', now), '+inf')
local given, seen = {tostring(#offers)}, {}
for _, offer in ipairs(offers) do
  local limits = string.match(offer, '^.*({.*)') -- a name may hold a brace too
  if limits and not seen[limits] and #given <= tonumber(ARGV[1]) and #limits <= tonumber(ARGV[2]) then
    seen[limits] = true
    given[#given + 1] = limits
  end
end
return given
`)

// announce renews the offer, if there is one.
func (m *Member) announce(ctx context.Context) error {
	m.mu.Lock()
	offer := m.offer
	m.mu.Unlock()
	if offer == "" {
		return nil
	}
	return offerScript.Run(ctx, m.rdb, []string{offersKey}, offer, offerTTL.Milliseconds()).Err()
}

// withdraw takes the offer back. One that stays ends by itself.
func (m *Member) withdraw(ctx context.Context) {
	m.mu.Lock()
	offer := m.offer
	m.offer = ""
	m.mu.Unlock()
	if offer != "" {
		_ = m.rdb.ZRem(ctx, offersKey, offer).Err()
	}
}

// Fleet is what the live workers of a Redis have in common, of whatever fleet they are: the queues are the same for all.
type Fleet struct {
	// Workers is how many take jobs.
	Workers int
	// Maxima are the largest limits that every one of them takes; job.MaxLimits without workers.
	Maxima job.Limits
}

// Board is where the offers stand. It is safe for concurrent use.
type Board struct{ rdb redis.UniversalClient }

// NewBoard returns a Board over rdb, which stays the caller's to close.
func NewBoard(rdb redis.UniversalClient) *Board { return &Board{rdb: rdb} }

// Look reads the offers. Limits that cannot be read, as of another version, bound nothing.
func (b *Board) Look(ctx context.Context) (Fleet, error) {
	f := Fleet{Maxima: job.MaxLimits()}
	given, err := offersScript.Run(ctx, b.rdb, []string{offersKey}, maxLimits, maxLimitsBytes).StringSlice()
	if err == nil && len(given) > 0 {
		f.Workers, err = strconv.Atoi(given[0])
	}
	if err != nil {
		return f, fmt.Errorf("read what jobs workers take: %w", err)
	}
	for _, limits := range given[min(1, len(given)):] {
		if maxima, err := decode(limits); err == nil {
			f.Maxima = f.Maxima.Clamp(maxima)
		}
	}
	return f, nil
}

// Follower knows the Maxima of a Board without asking Redis each time. It is safe for concurrent use.
type Follower struct {
	board  *Board
	log    *zap.Logger
	maxima atomic.Pointer[job.Limits]
}

// NewFollower returns a Follower, which knows job.MaxLimits until Run has looked for the first time.
func NewFollower(b *Board, log *zap.Logger) *Follower {
	f := &Follower{board: b, log: log}
	maxima := job.MaxLimits()
	f.maxima.Store(&maxima)
	return f
}

// Maxima returns the largest limits that every live worker took a few seconds ago, or when Redis last answered.
func (f *Follower) Maxima() job.Limits { return *f.maxima.Load() }

// Run looks from time to time until ctx ends.
func (f *Follower) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if found, err := f.board.Look(ctx); err != nil {
			f.log.Debug("look what jobs workers take", zap.Error(err)) // a Redis that is away is told of by others
		} else if before := f.maxima.Swap(&found.Maxima); *before != found.Maxima {
			f.log.Info("the largest limits that all workers take have changed", zap.Any("limits", found.Maxima))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
