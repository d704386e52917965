// Package budget bounds the sum of the memory limits of all sandboxes that run jobs by
// what the host has, over any Launcher. A slot alone says nothing of size: four jobs of 4 GiB do not fit
// into a host that runs forty of 256 MiB.
//
// It stands above a pool. Sandboxes that wait there are not counted: nothing runs in them but an idle interpreter, which
// uses a small part of its limit, and OfHost leaves room for those. One that has had a job is counted until it is proven gone,
// also when its Close does not wait for that (see Closer).
package budget

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
)

var (
	_ sandbox.Launcher = (*Launcher)(nil)
	_ sandbox.Sandbox  = (*box)(nil)
)

// A Closer is a sandbox whose Close returns before it is gone.
type Closer interface {
	// CloseThen is Close, and calls then once: with nil when the sandbox is proven gone, with an error that matches
	// sandbox.ErrQuarantined when it is in quarantine. then does not block.
	CloseThen(then func(err error))
}

// lookEvery is how often a launch that waits looks whether quarantine has ended.
const lookEvery = time.Second

// Config is what a Launcher needs to know.
type Config struct {
	// Bytes is the budget. It must be at least the memory limit of the largest job that is launched.
	Bytes int64
	// Quarantined tells how many sandboxes could not be proven gone. Their memory counts as taken until
	// there is none. nil means that Close is always believed.
	Quarantined func() int
	// Metrics may be nil.
	Metrics *Metrics
}

// Launcher is a sandbox.Launcher that launches when there is memory for it, in the order of asking. It is safe for concurrent use
// and owns no goroutine.
type Launcher struct {
	next sandbox.Launcher
	cfg  Config
	room *semaphore.Weighted

	mu   sync.Mutex
	lost int64 // of sandboxes in quarantine
	used int64
}

// New returns a Launcher over next.
func New(next sandbox.Launcher, cfg Config) (*Launcher, error) {
	if cfg.Bytes <= 0 {
		return nil, errors.New("budget config: Bytes: must be more than 0")
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil)
	}
	if cfg.Quarantined == nil {
		cfg.Quarantined = func() int { return 0 }
	}
	cfg.Metrics.budget.Set(float64(cfg.Bytes))
	return &Launcher{next: next, cfg: cfg, room: semaphore.NewWeighted(cfg.Bytes)}, nil
}

// Launch waits for room until ctx is done, then launches. An error that matches sandbox.ErrNoRoom means that there was none.
func (l *Launcher) Launch(ctx context.Context, limits job.Limits) (sandbox.Sandbox, error) {
	n := limits.MemoryBytes
	if n > l.cfg.Bytes {
		return nil, fmt.Errorf("%w: the job's limit is %s, the budget %s", sandbox.ErrRefused, job.FormatBytes(n), job.FormatBytes(l.cfg.Bytes))
	}
	if err := l.acquire(ctx, n); err != nil {
		return nil, err
	}
	inner, err := l.next.Launch(ctx, limits)
	if err != nil {
		l.release(n, err)
		return nil, err
	}
	return &box{Sandbox: inner, l: l, bytes: n}, nil
}

// acquire takes n bytes. It looks at the quarantine now and then, because nobody tells of its end.
func (l *Launcher) acquire(ctx context.Context, n int64) error {
	l.recover()
	waited := false
	for !l.try(ctx, n) {
		if !waited {
			waited = true
			l.cfg.Metrics.waits.Inc()
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", sandbox.ErrNoRoom, context.Cause(ctx))
		}
		l.recover()
	}
	l.note(n)
	return nil
}

func (l *Launcher) try(ctx context.Context, n int64) bool {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	return l.room.Acquire(ctx, n) == nil
}

// release gives n bytes back, unless err says that their sandbox may still be there.
func (l *Launcher) release(n int64, err error) {
	if errors.Is(err, sandbox.ErrQuarantined) {
		l.mu.Lock()
		l.lost += n
		l.mu.Unlock()
		return
	}
	l.room.Release(n)
	l.note(-n)
}

// recover gives back what was in quarantine, once nothing is.
func (l *Launcher) recover() {
	l.mu.Lock()
	lost := l.lost
	if lost > 0 && l.cfg.Quarantined() == 0 {
		l.lost = 0
	} else {
		lost = 0
	}
	l.mu.Unlock()
	if lost > 0 {
		l.room.Release(lost)
		l.note(-lost)
	}
}

func (l *Launcher) note(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used += n
	l.cfg.Metrics.used.Set(float64(l.used))
}

// box gives its memory back when it is gone.
type box struct {
	sandbox.Sandbox
	l     *Launcher
	bytes int64
	once  sync.Once
}

// Close closes the sandbox.
func (b *box) Close() error {
	if c, ok := b.Sandbox.(Closer); ok {
		b.once.Do(func() { c.CloseThen(func(err error) { b.l.release(b.bytes, err) }) })
		return nil
	}
	err := b.Sandbox.Close()
	b.once.Do(func() { b.l.release(b.bytes, err) })
	return err
}

// Metrics measures the budget.
type Metrics struct {
	budget prometheus.Gauge
	used   prometheus.Gauge
	waits  prometheus.Counter
}

// NewMetrics makes the metrics and registers them with reg, unless it is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		budget: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tracefleet_budget_memory_bytes", Help: "What the memory limits of all running jobs together may be.",
		}),
		used: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tracefleet_budget_memory_used_bytes", Help: "What they are, those in quarantine included.",
		}),
		waits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tracefleet_budget_waits_total", Help: "Launches that had to wait for a second or more for memory.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.budget, m.used, m.waits)
	}
	return m
}

// hostShare is the part of the host's memory that jobs get when nothing else is said; the rest is for the
// engine, warm sandboxes, the workers and the page cache.
const hostShare = 0.8

// OfHost is the budget for a host with so many bytes of memory.
func OfHost(bytes int64) int64 { return int64(hostShare * float64(bytes)) }
