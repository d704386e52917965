package queue

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/execra/tracefleet/internal/job"
)

// Metrics counts what producers and consumers do. Labels come from closed sets.
type Metrics struct {
	enqueued  *prometheus.CounterVec // queue
	delivered prometheus.Counter
	ended     *prometheus.CounterVec // outcome: acknowledged, retried, archived, dropped
	faults    *prometheus.CounterVec // class
	recovered *prometheus.CounterVec // how: enqueued or requeued
	rescued   prometheus.Counter
	refused   prometheus.Counter
	woken     prometheus.Counter
	slots     prometheus.Gauge
	slotsUsed prometheus.Gauge
}

// NewMetrics makes the metrics and registers them with reg, unless it is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "tracefleet", Subsystem: "queue", Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
	}
	vec := func(name, label, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), []string{label})
	}
	m := &Metrics{
		enqueued:  vec("tasks_enqueued_total", "queue", "Tasks put into a queue."),
		delivered: counter("deliveries_total", "Tasks handed to the handler."),
		ended:     vec("deliveries_ended_total", "outcome", "Deliveries, by outcome: acknowledged, retried, archived or dropped."),
		faults:    vec("faults_total", "class", "Deliveries that ended with a fault of the platform, by class."),
		recovered: vec("tasks_recovered_total", "how", "Tasks that were missing or stuck: enqueued anew, or requeued."),
		rescued:   counter("acknowledgements_rescued_total", "Acknowledgements of asynq that were saved from its canceled context."),
		refused:   counter("dequeue_errors_total", "Dequeues that Redis answered with an error."),
		woken:     counter("wakeups_total", "Waits for a task that a submit cut short."),
		slots:     prometheus.NewGauge(prometheus.GaugeOpts(opts("slots", "Handlers that may run at the same time."))),
		slotsUsed: prometheus.NewGauge(prometheus.GaugeOpts(opts("slots_used", "Handlers that run."))),
	}
	for _, q := range job.Queues() {
		m.enqueued.WithLabelValues(string(q))
	}
	for _, outcome := range []string{outcomeAcknowledged, outcomeRetried, outcomeArchived, outcomeDropped} {
		m.ended.WithLabelValues(outcome)
	}
	for _, c := range Classes() {
		m.faults.WithLabelValues(string(c))
	}
	for _, how := range []string{settledRequeued, "enqueued"} {
		m.recovered.WithLabelValues(how)
	}
	if reg != nil {
		reg.MustRegister(m.enqueued, m.delivered, m.ended, m.faults, m.recovered, m.rescued, m.refused, m.woken, m.slots, m.slotsUsed)
	}
	return m
}

// The values of the label outcome.
const (
	outcomeAcknowledged = "acknowledged"
	outcomeRetried      = "retried"
	outcomeArchived     = "archived"
	outcomeDropped      = "dropped"
)

// label keeps the classes of faults a closed set.
func (c Class) label() string {
	if slices.Contains(Classes(), c) {
		return string(c)
	}
	return string(ClassInternal)
}
