package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
)

// The defaults of Config.
const (
	DefaultOpenTTL        = 7 * 24 * time.Hour
	DefaultDeadTTL        = 30 * 24 * time.Hour
	DefaultRetention      = job.DefaultRetentionS * time.Second
	DefaultBeatEvery      = 2 * time.Second
	DefaultStaleAfter     = 10 * time.Second
	DefaultMaxLost        = 2
	DefaultMaxResultBytes = 1 << 20
)

// maxHistory bounds the attempts that are remembered of one job.
const maxHistory = 20

// Config is what a Ledger needs to know. The zero value is good for everything but tests.
type Config struct {
	// OpenTTL is the safety TTL of a job that is not finished.
	OpenTTL time.Duration
	// DeadTTL is how long a dead letter is kept.
	DeadTTL time.Duration
	// BeatEvery is how often Hold renews a claim; StaleAfter is when a claim that was not
	// renewed may be taken away. StaleAfter must be at least three times BeatEvery.
	BeatEvery, StaleAfter time.Duration
	// MaxLost is how many workers a job may take with it before it is put into the dead letters as ClassPoison.
	MaxLost int
	// Keys encrypts what is stored of inputs and results; nil stores them as they are.
	Keys *Keys
	// MaxResultBytes bounds a compressed result, before it is encrypted.
	MaxResultBytes int64
	// Admission bounds what Create takes in.
	Admission Admission
	// Metrics may be nil.
	Metrics *Metrics
	// Log may be nil.
	Log *zap.Logger
}

// WithDefaults returns c with every field filled in.
func (c Config) WithDefaults() Config {
	c.OpenTTL = cmp.Or(c.OpenTTL, DefaultOpenTTL)
	c.DeadTTL = cmp.Or(c.DeadTTL, DefaultDeadTTL)
	c.BeatEvery = cmp.Or(c.BeatEvery, DefaultBeatEvery)
	c.StaleAfter = cmp.Or(c.StaleAfter, DefaultStaleAfter)
	c.MaxLost = cmp.Or(c.MaxLost, DefaultMaxLost)
	c.MaxResultBytes = cmp.Or(c.MaxResultBytes, DefaultMaxResultBytes)
	c.Admission = c.Admission.withDefaults()
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// Validate reports every fault of c, which must have its defaults filled in.
func (c Config) Validate() error {
	var errs []error
	positive := func(name string, n int64) {
		if n <= 0 {
			errs = append(errs, fmt.Errorf("%s: must be more than 0", name))
		}
	}
	positive("OpenTTL", int64(c.OpenTTL/time.Millisecond))
	positive("DeadTTL", int64(c.DeadTTL/time.Millisecond))
	positive("BeatEvery", int64(c.BeatEvery/time.Millisecond))
	positive("MaxLost", int64(c.MaxLost))
	positive("MaxResultBytes", c.MaxResultBytes)
	if c.Admission.MemoryMark > 1 {
		errs = append(errs, errors.New("MemoryMark: must be at most 1"))
	}
	if c.StaleAfter < 3*c.BeatEvery {
		errs = append(errs, errors.New("StaleAfter: must be at least three times BeatEvery"))
	}
	return errors.Join(errs...)
}

// Ledger reads and changes jobs in Redis. It is safe for concurrent use. It owns one
// goroutine from the first Wait, Hold or Endings until Close.
type Ledger struct {
	rdb   redis.UniversalClient
	cfg   Config
	codec codec
	hub   hub

	memory memoryGauge
	news   *news
}

// New returns a Ledger over rdb, which stays the caller's to close, after the Ledger.
func New(rdb redis.UniversalClient, cfg Config) (*Ledger, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("ledger config: %w", err)
	}
	c, err := newCodec()
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	l := &Ledger{rdb: rdb, cfg: cfg, codec: c, news: newNews(rdb, cfg.StaleAfter)}
	l.hub.init(rdb)
	return l, nil
}

// Close ends every Wait, Hold and Endings that is under way, waits for the
// Ledger's goroutine, and sends what is left to be sent. It is idempotent. The other methods go on working, also beside and after it.
func (l *Ledger) Close() error {
	l.hub.close()
	l.news.send(context.WithoutCancel(l.hub.ctx)) // It has ended, and what is left shall go all the same.
	return nil
}

// Get returns the entry of a job.
// Errors: ErrNotFound; ErrCorrupt, with the entry as far as it could be read.
func (l *Ledger) Get(ctx context.Context, id string) (Entry, error) {
	if !job.ValidID(id) {
		return Entry{}, fmt.Errorf("get %.40q: %w", id, ErrNotFound)
	}
	r, err := l.rdb.HMGet(ctx, entryKey(id), entryFields...).Result()
	if err != nil {
		return Entry{}, reply("get", id, err)
	}
	if record(r).missing() {
		return Entry{}, fmt.Errorf("get %s: %w", id, ErrNotFound)
	}
	e, err := parseEntry(id, r)
	if err != nil {
		l.cfg.Metrics.corrupt.Inc()
		return e, fmt.Errorf("get %s: %w", id, err)
	}
	return e, nil
}

// History returns the ended attempts of a job, oldest first, at most the
// newest 20. A job that was never attempted, or does not exist, has none.
// Errors: ErrCorrupt.
func (l *Ledger) History(ctx context.Context, id string) ([]Attempt, error) {
	if !job.ValidID(id) {
		return nil, nil
	}
	var lines *redis.StringSliceCmd
	var values *redis.SliceCmd
	if err := l.pipelined(ctx, func(pipe redis.Pipeliner) {
		lines = pipe.LRange(ctx, historyKey(id), -maxHistory, -1)
		values = pipe.HMGet(ctx, entryKey(id), entryFields...)
	}); err != nil {
		return nil, reply("history", id, err)
	}
	if err := cmp.Or(lines.Err(), values.Err()); err != nil {
		return nil, reply("history", id, err)
	}
	attempts := make([]Attempt, 0, len(lines.Val())+1)
	for _, line := range lines.Val() {
		a, err := parseAttempt(line)
		if err != nil {
			return nil, fmt.Errorf("history %s: %w", id, err)
		}
		attempts = append(attempts, a)
	}
	last, ok, err := lastAttempt(values.Val())
	if err != nil {
		return nil, fmt.Errorf("history %s: %w", id, err)
	}
	if ok {
		attempts = append(attempts, last)
	}
	return attempts[max(0, len(attempts)-maxHistory):], nil
}

// lastAttempt is the attempt that ended a job, which its entry tells of. There is none while the job is open,
// and when it was canceled before it ran.
func lastAttempt(r record) (a Attempt, ok bool, err error) {
	if _, ok = r.field("ended"); !ok {
		return Attempt{}, false, nil
	}
	p := fieldParser{from: r}
	a = Attempt{Fence: p.integer("ended"), Worker: r.text("worker"), Start: p.time("claimed"), End: p.time("finished"), Class: r.text("class")}
	if a.Class == "" {
		a.Class = r.text("status")
	}
	return a, true, p.err
}

// parseAttempt reads a line that luaHistory wrote.
func parseAttempt(line string) (Attempt, error) {
	f := strings.Fields(line)
	if len(f) != 5 {
		return Attempt{}, corrupt("attempt: %.80q", line)
	}
	var n [3]int64
	for i, s := range f[:3] {
		var err error
		if n[i], err = strconv.ParseInt(s, 10, 64); err != nil || n[i] < 0 || n[i] >= 1<<53 {
			return Attempt{}, corrupt("attempt: %.80q", line)
		}
	}
	return Attempt{
		Fence: n[0], Start: time.UnixMilli(n[1]).UTC(), End: time.UnixMilli(n[2]).UTC(), Worker: f[3], Class: f[4],
	}, nil
}

// pipelined runs commands in one round trip. Each command knows its own error, but not that nothing could be sent at all:
// that is the error returned.
func (l *Ledger) pipelined(ctx context.Context, add func(pipe redis.Pipeliner)) error {
	_, err := l.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		add(pipe)
		return nil
	})
	var answer redis.Error
	if errors.As(err, &answer) {
		return nil
	}
	return err
}

func entryKey(id string) string   { return "tf:{" + id + "}" }
func inputKey(id string) string   { return "tf:{" + id + "}:input" }
func resultKey(id string) string  { return "tf:{" + id + "}:result" }
func historyKey(id string) string { return "tf:{" + id + "}:history" }

func jobKeys(id string) []string {
	return []string{entryKey(id), inputKey(id), resultKey(id), historyKey(id)}
}

// The indexes of open jobs and of dead letters. All keys of one index share its
// cluster slot, so that one script can keep them in step.

func openQueueKey(q job.Queue) string { return "{" + openKey + "}:queue:" + string(q) }
func openTenantKey(q job.Queue, tenant string) string {
	return "{" + openKey + "}:tenant:" + string(q) + ":" + tenant
}

const (
	openKey       = "tf:open"
	openOfKey     = "{" + openKey + "}:of"
	deadKey       = "tf:dlq"
	deadOfKey     = "{" + deadKey + "}:of"
	doneChannel   = "tf:done"
	cancelChannel = "tf:cancel"
)
