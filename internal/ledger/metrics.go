package ledger

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/execra/tracefleet/internal/job"
)

// Metrics counts what a Ledger does. Labels come from closed sets.
type Metrics struct {
	created     prometheus.Counter
	refused     *prometheus.CounterVec // reason
	finished    *prometheus.CounterVec // status
	released    *prometheus.CounterVec // draining or failed
	lost        prometheus.Counter
	buried      prometheus.Counter
	requeued    prometheus.Counter
	purged      prometheus.Counter
	fenced      prometheus.Counter
	corrupt     prometheus.Counter
	resultBytes prometheus.Histogram
}

// NewMetrics makes the metrics and registers them with reg, unless it is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tracefleet", Subsystem: "ledger", Name: name, Help: help})
	}
	vec := func(name, label, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(
			prometheus.CounterOpts{Namespace: "tracefleet", Subsystem: "ledger", Name: name, Help: help}, []string{label})
	}
	m := &Metrics{
		created:  counter("jobs_created_total", "Jobs accepted."),
		refused:  vec("jobs_refused_total", "reason", "Jobs refused for lack of room: queue, tenant or memory."),
		finished: vec("jobs_finished_total", "status", "Results stored, by status."),
		released: vec("claims_released_total", "reason", "Claims given back for another attempt: draining, no_room or failed."),
		lost:     counter("claims_lost_total", "Claims taken away from workers that were gone."),
		buried:   counter("jobs_buried_total", "Jobs put into the dead letters."),
		requeued: counter("dead_letters_requeued_total", "Dead letters that were queued again."),
		purged:   counter("dead_letters_purged_total", "Dead letters that were removed with their input and result."),
		fenced:   counter("claims_refused_total", "Changes refused because the claim was no longer held."),
		corrupt:  counter("corrupt_total", "Entries, inputs and results that could not be understood."),
		resultBytes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "tracefleet", Subsystem: "ledger", Name: "result_bytes",
			Help: "Size of results as they are stored.", Buckets: prometheus.ExponentialBuckets(256, 4, 7),
		}),
	}
	for _, reason := range []FullReason{FullQueue, FullTenant, FullMemory} {
		m.refused.WithLabelValues(string(reason))
	}
	for _, reason := range []string{ReasonDraining, ReasonNoRoom, "failed"} {
		m.released.WithLabelValues(reason)
	}
	for _, s := range job.Statuses() {
		m.finished.WithLabelValues(string(s))
	}
	if reg != nil {
		reg.MustRegister(m.created, m.refused, m.finished, m.released, m.lost, m.buried, m.requeued, m.purged, m.fenced, m.corrupt, m.resultBytes)
	}
	return m
}

// releaseLabel keeps the labels of released a closed set.
func releaseLabel(reason string) string {
	if reason == ReasonDraining || reason == ReasonNoRoom {
		return reason
	}
	return "failed"
}
