package reconcile

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/detach"
)

// lockKey holds the token of the reconciler that works, with a TTL.
const lockKey = "tf:leader"

// takeScript takes or renews the lock: ARGV token, ttl ms.
var takeScript = redis.NewScript(`
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`)

// releaseScript gives the lock up: ARGV token.
var releaseScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`)

// lock elects one of many. Two may hold it for a moment when one of them stands still.
type lock struct {
	rdb   redis.UniversalClient
	key   string
	token string
	ttl   time.Duration
}

func newLock(rdb redis.UniversalClient, key string, ttl time.Duration) *lock {
	return &lock{rdb: rdb, key: key, token: rand.Text(), ttl: ttl}
}

// take takes or renews the lock and tells whether it is ours.
func (l *lock) take(ctx context.Context) (bool, error) {
	return takeScript.Run(ctx, l.rdb, []string{l.key}, l.token, l.ttl.Milliseconds()).Bool()
}

// release gives the lock up, so that another takes over at once. It ends by itself else.
func (l *lock) release(ctx context.Context) {
	ctx, cancel := detach.Context(ctx, time.Second)
	defer cancel()
	_ = releaseScript.Run(ctx, l.rdb, []string{l.key}, l.token).Err()
}
