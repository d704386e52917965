package webhook

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// State is where a delivery stands.
type State string

// The states. The last two are final until somebody asks for a replay.
const (
	StateWaiting   State = "waiting" // for the job to end
	StateSending   State = "sending" // or to be tried again
	StateDelivered State = "delivered"
	StateFailed    State = "failed"
)

// Callback is what is to be called when a job has ended.
type Callback struct {
	JobID string
	// Digest is that of the job it came with, as job.Job.Digest gives it. It is called for this job only: a submission that
	// is refused because its id is taken must not hear of the job that has the id.
	Digest      string
	URL         string
	Traceparent string
}

// Delivery is the callback of one job.
type Delivery struct {
	JobID string `json:"id"`
	// Digest is that of the job that the callback came with; empty when it was registered by a version that kept none.
	Digest string `json:"-"`
	// EventID stays the same over all attempts and replays.
	EventID     string `json:"event_id"`
	URL         string `json:"url"`
	Traceparent string `json:"-"`
	State       State  `json:"state"`
	Attempts    int    `json:"attempts"`
	// LastStatus is the last answer's HTTP status, 0 when there was none; LastError says why an attempt failed.
	LastStatus int    `json:"last_status"`
	LastError  string `json:"last_error"`
	// NextAt is when the next attempt is due; nil when there is none.
	NextAt *time.Time `json:"next_at"`
}

// Of tells whether the delivery is for the job with this digest.
func (d Delivery) Of(digest string) bool { return d.Digest == "" || d.Digest == digest }

// ErrNotFound means that the job has no callback, or that it is forgotten.
var ErrNotFound = errors.New("the job has no webhook")

// How long a delivery is remembered: while its job is open, and once it is done.
const (
	waitingTTL = 8 * 24 * time.Hour
	doneTTL    = 24 * time.Hour
)

// lookAgain is when a delivery whose job has not ended is looked at without having been told.
const lookAgain = time.Minute

// overdue is the delay of what is due already, so that whoever looks next finds it.
const overdue = -time.Millisecond

const (
	dueKey     = "tf:{webhooks}:due"
	waitingKey = "tf:{webhooks}:waiting"
)

func deliveryKey(id string) string { return "tf:{webhooks}:job:" + id }

const luaNow = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function ms(n) return string.format('%.0f', n) end
`

// registerScript: KEYS delivery, waiting; ARGV id, look again ms, ttl, then fields and values. The first callback of a job stays.
var registerScript = redis.NewScript(luaNow + `
if redis.call('EXISTS', KEYS[1]) == 1 then return redis.call('HMGET', KEYS[1], 'digest', 'url') end
for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('HSET', KEYS[1], 'state', 'waiting', 'attempts', '0')
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('ZADD', KEYS[2], ms(now + ARGV[2]), ARGV[1])
return {}
`)

// forgetScript: KEYS delivery, waiting, due; ARGV id, digest. The callback of another job with the id stays.
var forgetScript = redis.NewScript(`
local digest = redis.call('HGET', KEYS[1], 'digest')
if digest and digest ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
return 1
`)

// endedScript: KEYS waiting, due; ARGV id. Of several replicas that hear of the same ending, one finds the job waiting.
var endedScript = redis.NewScript(luaNow + `
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('ZADD', KEYS[2], ms(now), ARGV[1])
return 1
`)

// takeScript: KEYS waiting, due; ARGV limit, lease ms. What waits for too long becomes due; what is taken is due
// again when the lease ends, should the taker die.
var takeScript = redis.NewScript(luaNow + `
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ms(now), 'LIMIT', 0, ARGV[1])) do
	redis.call('ZREM', KEYS[1], id)
	redis.call('ZADD', KEYS[2], ms(now), id)
end
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ms(now), 'LIMIT', 0, ARGV[1])
for _, id in ipairs(ids) do redis.call('ZADD', KEYS[2], ms(now + ARGV[2]), id) end
return ids
`)

// settleScript: KEYS delivery, waiting, due; ARGV id, state, attempts, status, error, delay ms (0: done), ttl.
var settleScript = redis.NewScript(luaNow + `
redis.call('ZREM', KEYS[3], ARGV[1])
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'state', ARGV[2], 'attempts', ARGV[3], 'status', ARGV[4], 'error', ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[7])
if ARGV[6] ~= '0' then
	local key = KEYS[3]
	if ARGV[2] == 'waiting' then key = KEYS[2] end
	redis.call('ZADD', key, ms(now + ARGV[6]), ARGV[1])
end
return 1
`)

// Store keeps deliveries in Redis. It is safe for concurrent use.
type Store struct{ rdb redis.UniversalClient }

// NewStore returns a Store over rdb, which stays the caller's to close.
func NewStore(rdb redis.UniversalClient) *Store { return &Store{rdb: rdb} }

// Register keeps the callback of a job, or returns the one that there is under the job's id, which stays; made tells which.
// Of that one the JobID, the Digest and the URL are known.
func (s *Store) Register(ctx context.Context, c Callback) (found Callback, made bool, err error) {
	there, err := registerScript.Run(ctx, s.rdb, []string{deliveryKey(c.JobID), waitingKey}, c.JobID, lookAgain.Milliseconds(), waitingTTL.Milliseconds(),
		"url", c.URL, "digest", c.Digest, "event", "evt_"+rand.Text(), "traceparent", c.Traceparent).Slice()
	if err != nil {
		return Callback{}, false, fmt.Errorf("register webhook of %s: %w", c.JobID, err)
	}
	if len(there) < 2 {
		return c, true, nil
	}
	found.JobID = c.JobID
	found.Digest, _ = there[0].(string) // nil when it was kept without
	found.URL, _ = there[1].(string)
	return found, false, nil
}

// Forget takes a callback out again, unless the one under the job's id came with a job of another digest.
func (s *Store) Forget(ctx context.Context, id, digest string) error {
	if err := forgetScript.Run(ctx, s.rdb, []string{deliveryKey(id), waitingKey, dueKey}, id, digest).Err(); err != nil {
		return fmt.Errorf("forget webhook of %s: %w", id, err)
	}
	return nil
}

// Get returns the delivery of a job.
// Errors: ErrNotFound.
func (s *Store) Get(ctx context.Context, id string) (Delivery, error) {
	h, err := s.rdb.HGetAll(ctx, deliveryKey(id)).Result()
	if err != nil {
		return Delivery{}, fmt.Errorf("read webhook of %s: %w", id, err)
	}
	if len(h) == 0 {
		return Delivery{}, fmt.Errorf("webhook of %s: %w", id, ErrNotFound)
	}
	d := Delivery{JobID: id, Digest: h["digest"], EventID: h["event"], URL: h["url"], Traceparent: h["traceparent"], State: State(h["state"]), LastError: h["error"]}
	d.Attempts, _ = strconv.Atoi(h["attempts"]) // written by a script of ours
	d.LastStatus, _ = strconv.Atoi(h["status"])
	if d.State == StateSending {
		if score, err := s.rdb.ZScore(ctx, dueKey, id).Result(); err == nil {
			at := time.UnixMilli(int64(score)).UTC()
			d.NextAt = &at
		}
	}
	return d, nil
}

// Replay makes a delivery due at once, with all its attempts before it.
// Errors: ErrNotFound.
func (s *Store) Replay(ctx context.Context, id string) (Delivery, error) {
	d, err := s.Get(ctx, id)
	if err != nil {
		return d, err
	}
	if d.State == StateWaiting {
		return d, nil // It is sent when the job ends.
	}
	d.State, d.Attempts, d.LastError = StateSending, 0, ""
	return d, s.settle(ctx, d, overdue)
}

// ended makes the delivery of a job due, if it has one that waits.
func (s *Store) ended(ctx context.Context, id string) (bool, error) {
	n, err := endedScript.Run(ctx, s.rdb, []string{waitingKey, dueKey}, id).Int()
	return n == 1, err
}

// take leases up to limit deliveries that are due.
func (s *Store) take(ctx context.Context, limit int, lease time.Duration) ([]string, error) {
	return takeScript.Run(ctx, s.rdb, []string{waitingKey, dueKey}, limit, lease.Milliseconds()).StringSlice()
}

// settle writes the outcome of an attempt; a delay of 0 means that there will be no other.
func (s *Store) settle(ctx context.Context, d Delivery, delay time.Duration) error {
	ttl := waitingTTL
	if delay == 0 {
		ttl = doneTTL
	}
	err := settleScript.Run(ctx, s.rdb, []string{deliveryKey(d.JobID), waitingKey, dueKey}, d.JobID, string(d.State), d.Attempts,
		d.LastStatus, d.LastError, delay.Milliseconds(), ttl.Milliseconds()).Err()
	if err != nil {
		return fmt.Errorf("write webhook of %s: %w", d.JobID, err)
	}
	return nil
}
