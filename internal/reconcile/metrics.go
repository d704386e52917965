package reconcile

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what a Reconciler repairs.
type Metrics struct {
	enqueued  prometheus.Counter
	reclaimed prometheus.Counter
	poisoned  prometheus.Counter
	errors    prometheus.Counter
	leading   prometheus.Gauge
}

// NewMetrics makes the metrics and registers them with reg, unless it is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "tracefleet", Subsystem: "reconcile", Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
	}
	m := &Metrics{
		enqueued:  counter("jobs_enqueued_total", "Queued jobs that had no task and got one."),
		reclaimed: counter("jobs_reclaimed_total", "Jobs taken from workers that were gone."),
		poisoned:  counter("jobs_poisoned_total", "Jobs buried because they were lost with their worker too often."),
		errors:    counter("errors_total", "Looks that failed."),
		leading:   prometheus.NewGauge(prometheus.GaugeOpts(opts("leader", "1 while this process is the one that reconciles."))),
	}
	if reg != nil {
		reg.MustRegister(m.enqueued, m.reclaimed, m.poisoned, m.errors, m.leading)
	}
	return m
}

func (m *Metrics) leader(mine bool) {
	if mine {
		m.leading.Set(1)
	} else {
		m.leading.Set(0)
	}
}
