package reconcile

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/execra/tracefleet/internal/queue"
)

// What a Sweeper repairs, as labels, beside the kinds of queue.Faults.
const (
	repairCondemned  = "condemned"  // a task that an operator archived; its job is a dead letter now
	repairDismissed  = "dismissed"  // a task that an operator deleted; its dead letter has left the list
	repairUnarchived = "unarchived" // an archived task whose job has a result, or is gone
	repairTrimmed    = "trimmed"    // a task that left a large archive; its dead letter stays
	repairShown      = "shown"      // a dead letter that was missing in the archive
	repairForgotten  = "forgotten"  // a stray task whose job is over
	repairRequeued   = "requeued"   // a stray task whose job shall run
)

// SweepMetrics counts what a Sweeper repairs.
type SweepMetrics struct {
	repairs *prometheus.CounterVec // repair
	errors  prometheus.Counter
}

// NewSweepMetrics makes the metrics and registers them with reg, unless it is nil.
func NewSweepMetrics(reg prometheus.Registerer) *SweepMetrics {
	m := &SweepMetrics{
		repairs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "tracefleet", Subsystem: "sweep", Name: "repairs_total",
			Help: "What was put right between the ledger, the dead letters and asynq's keys, by kind.",
		}, []string{"repair"}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "tracefleet", Subsystem: "sweep", Name: "errors_total", Help: "Sweeps that failed.",
		}),
	}
	kinds := []string{
		repairCondemned, repairDismissed, repairUnarchived, repairTrimmed, repairShown, repairForgotten, repairRequeued,
	}
	for _, f := range queue.Faults() {
		kinds = append(kinds, string(f))
	}
	for _, kind := range kinds {
		m.repairs.WithLabelValues(kind)
	}
	if reg != nil {
		reg.MustRegister(m.repairs, m.errors)
	}
	return m
}
