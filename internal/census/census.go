// Package census counts what stands in Redis, the ledger's part and the queue's, for
// metrics. Everybody who runs one shows the same numbers: take the maximum over processes, not the sum.
package census

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/roster"
)

// DefaultEvery is how often is counted.
const DefaultEvery = 5 * time.Second

// Ledger is what a Census needs of package ledger.
type Ledger interface {
	// Counts counts open jobs and dead letters.
	Counts(ctx context.Context, classes []string) (ledger.Counts, error)
}

// Queue is what a Census needs of package queue.
type Queue interface {
	// Depths counts the tasks of every queue.
	Depths(ctx context.Context) ([]queue.Depth, error)
}

// Roster is what a Census needs of package roster.
type Roster interface {
	// Look tells how many workers take jobs.
	Look(ctx context.Context) (roster.Fleet, error)
}

var (
	_ Ledger = (*ledger.Ledger)(nil)
	_ Queue  = (*queue.Producer)(nil)
	_ Roster = (*roster.Board)(nil)
)

// Config is what a Census needs to know.
type Config struct {
	// Every is how often is counted.
	Every time.Duration
	// Metrics are where the numbers go. Required.
	Metrics *Metrics
	// Log may be nil.
	Log *zap.Logger
}

// Census counts again and again.
type Census struct {
	ledger Ledger
	queue  Queue
	roster Roster
	cfg    Config
}

// New returns a Census.
func New(l Ledger, q Queue, r Roster, cfg Config) (*Census, error) {
	if cfg.Every == 0 {
		cfg.Every = DefaultEvery
	}
	if cfg.Every < 0 || cfg.Metrics == nil {
		return nil, errors.New("census config: Every must be positive, and Metrics must be given")
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	return &Census{ledger: l, queue: q, roster: r, cfg: cfg}, nil
}

// Run counts until ctx ends. While Redis is away the numbers are not shown; so its only error is nil.
func (c *Census) Run(ctx context.Context) error {
	ticker := time.NewTicker(c.cfg.Every)
	defer ticker.Stop()
	for {
		if err := c.count(ctx); err != nil && ctx.Err() == nil {
			c.cfg.Metrics.away()
			c.cfg.Log.Warn("count what stands in Redis", zap.Error(err))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *Census) count(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*c.cfg.Every)
	defer cancel()
	counts, err := c.ledger.Counts(ctx, DeadClasses())
	if err != nil {
		return fmt.Errorf("census: %w", err)
	}
	depths, err := c.queue.Depths(ctx)
	if err != nil {
		return fmt.Errorf("census: %w", err)
	}
	fleet, err := c.roster.Look(ctx)
	if err != nil {
		return fmt.Errorf("census: %w", err)
	}
	c.cfg.Metrics.show(counts, depths, fleet)
	return nil
}

// otherClass is the label of dead letters of a class that is not in DeadClasses.
const otherClass = "other"

// DeadClasses are the classes of dead letters that have a label of their own.
func DeadClasses() []string {
	classes := []string{ledger.ClassPoison, ledger.ClassArchived}
	for _, c := range queue.Classes() {
		classes = append(classes, string(c))
	}
	return classes
}

// Metrics are the numbers.
type Metrics struct {
	up      prometheus.Gauge
	open    *prometheus.GaugeVec // queue
	oldest  *prometheus.GaugeVec // queue
	dead    *prometheus.GaugeVec // class
	tasks   *prometheus.GaugeVec // queue, state
	waiting *prometheus.GaugeVec // queue
	workers *prometheus.GaugeVec // no label, so that it can be left out
	memory  prometheus.Gauge
	limit   prometheus.Gauge
}

// NewMetrics makes the metrics and registers them with reg, unless it is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: "tracefleet", Subsystem: "fleet", Name: name, Help: help}
	}
	m := &Metrics{
		up:      prometheus.NewGauge(gauge("redis_up", "1 when Redis answered the last count, else 0 and the other numbers of the fleet are left out.")),
		open:    prometheus.NewGaugeVec(gauge("open_jobs", "Jobs queued or running, by queue."), []string{"queue"}),
		oldest:  prometheus.NewGaugeVec(gauge("oldest_open_seconds", "Age of the oldest job queued or running, by queue."), []string{"queue"}),
		dead:    prometheus.NewGaugeVec(gauge("dead_letters", "Dead letters, by class."), []string{"class"}),
		tasks:   prometheus.NewGaugeVec(gauge("queue_tasks", "Tasks in asynq, by queue and state."), []string{"queue", "state"}),
		waiting: prometheus.NewGaugeVec(gauge("queue_wait_seconds", "How long the task has waited that is delivered next, by queue."), []string{"queue"}),
		workers: prometheus.NewGaugeVec(gauge("workers", "Live workers that take jobs."), nil),
		memory:  prometheus.NewGauge(gauge("redis_memory_bytes", "Memory of the fullest Redis node that has a limit; 0 when none has.")),
		limit:   prometheus.NewGauge(gauge("redis_memory_limit_bytes", "The limit of that node.")),
	}
	if reg != nil {
		reg.MustRegister(m.up, m.open, m.oldest, m.dead, m.tasks, m.waiting, m.workers, m.memory, m.limit)
	}
	return m
}

func (m *Metrics) away() {
	m.up.Set(0)
	for _, v := range []*prometheus.GaugeVec{m.open, m.oldest, m.dead, m.tasks, m.waiting, m.workers} {
		v.Reset()
	}
}

func (m *Metrics) show(c ledger.Counts, depths []queue.Depth, fleet roster.Fleet) {
	m.up.Set(1)
	m.workers.WithLabelValues().Set(float64(fleet.Workers))
	for _, q := range job.Queues() {
		m.open.WithLabelValues(string(q)).Set(float64(c.Open[q]))
		m.oldest.WithLabelValues(string(q)).Set(c.Oldest[q].Seconds())
	}
	other := c.DeadTotal
	for class, n := range c.Dead {
		m.dead.WithLabelValues(class).Set(float64(n))
		other -= n
	}
	m.dead.WithLabelValues(otherClass).Set(float64(max(other, 0)))
	for _, d := range depths {
		for state, n := range d.Tasks {
			m.tasks.WithLabelValues(string(d.Queue), state).Set(float64(n))
		}
		m.waiting.WithLabelValues(string(d.Queue)).Set(d.Oldest.Seconds())
	}
	m.memory.Set(float64(c.UsedMemoryBytes))
	m.limit.Set(float64(c.MaxMemoryBytes))
}
