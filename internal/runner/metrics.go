package runner

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/execra/tracefleet/internal/job"
)

// The phases of a job, as labels.
const (
	phaseWait   = "wait"   // from submission to claim
	phaseLaunch = "launch" // until a sandbox is there
	phaseRun    = "run"    // the program itself
	phaseTotal  = "total"  // from submission to the stored result
)

// Metrics measures what a Runner does. Labels come from closed sets.
type Metrics struct {
	jobs      *prometheus.CounterVec   // status
	seconds   *prometheus.HistogramVec // phase
	overshoot prometheus.Histogram
	cut       prometheus.Counter
	panics    prometheus.Counter
}

// NewMetrics makes the metrics and registers them with reg, unless it is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	name := func(n string) string { return prometheus.BuildFQName("tracefleet", "runner", n) }
	m := &Metrics{
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: name("jobs_total"), Help: "Jobs that this worker ended, by status.",
		}, []string{"status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name("job_seconds"), Help: "How long the phases of jobs took.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 15),
		}, []string{"phase"}),
		overshoot: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name("wall_overshoot_seconds"), Help: "How much longer than their wall limit programs ran that were killed for it.",
			Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10},
		}),
		cut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: name("results_cut_total"), Help: "Results that were cut to fit their size limit.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: name("trace_panics_total"), Help: "Traces that made their decoder panic. Each is a bug.",
		}),
	}
	for _, s := range job.Statuses() {
		m.jobs.WithLabelValues(string(s))
	}
	for _, phase := range []string{phaseWait, phaseLaunch, phaseRun, phaseTotal} {
		m.seconds.WithLabelValues(phase)
	}
	if reg != nil {
		reg.MustRegister(m.jobs, m.seconds, m.overshoot, m.cut, m.panics)
	}
	return m
}

func (m *Metrics) phase(name string, d time.Duration) {
	m.seconds.WithLabelValues(name).Observe(max(d, 0).Seconds())
}

// ended counts a stored result.
func (m *Metrics) ended(r job.Result, wall time.Duration) {
	m.jobs.WithLabelValues(string(r.Status)).Inc()
	m.phase(phaseTotal, r.FinishedAt.Sub(r.EnqueuedAt))
	if r.Status == job.StatusTimeLimit && slices.Contains(r.LimitsHit, job.HitWall) {
		m.overshoot.Observe(max(wall-r.Limits.Wall(), 0).Seconds())
	}
}
