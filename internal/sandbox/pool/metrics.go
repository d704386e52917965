package pool

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics is what a pool counts. Labels come from closed sets.
type Metrics struct {
	sandboxes   *prometheus.GaugeVec
	waiting     prometheus.Gauge
	parallelism prometheus.Gauge
	taken       *prometheus.CounterVec
	wait        prometheus.Histogram
	launch      prometheus.Histogram
	failed      prometheus.Counter
	discarded   *prometheus.CounterVec
}

// The states of a sandbox in the pool.
const (
	stateLaunching   = "launching"
	stateWarm        = "warm"
	stateRunning     = "running"
	stateClosing     = "closing"
	stateQuarantined = "quarantined"
)

// How a job got its sandbox.
const (
	takenWarm     = "warm"     // one was waiting
	takenAdjusted = "adjusted" // one was waiting, its limits were changed
	takenCold     = "cold"     // the job waited for a launch
)

// Why a sandbox was removed without having been handed out.
const (
	discardDied      = "died"      // it ended while it waited
	discardAged      = "aged"      // it waited too long
	discardRecycled  = "recycled"  // it is from before the last Recycle, or has limits that are no longer the stock's
	discardEvicted   = "evicted"   // a job with other limits needed the slot
	discardAdjust    = "adjust"    // its limits could not be changed
	discardAbandoned = "abandoned" // its job stopped waiting
	discardDrained   = "drained"   // the pool stopped
)

// NewMetrics registers the metrics of one pool with r; with nil they are
// counted but published nowhere. It panics when r has metrics of these names
// already, as a programming error at the start.
func NewMetrics(r prometheus.Registerer) *Metrics {
	f := promauto.With(r)
	m := &Metrics{
		sandboxes: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tracefleet_pool_sandboxes",
			Help: "Sandboxes by state; together they never exceed the slots.",
		}, []string{"state"}),
		waiting: f.NewGauge(prometheus.GaugeOpts{
			Name: "tracefleet_pool_waiting_jobs",
			Help: "Jobs that wait for a sandbox.",
		}),
		parallelism: f.NewGauge(prometheus.GaugeOpts{
			Name: "tracefleet_pool_launch_parallelism",
			Help: "Launches allowed at once, as found best so far.",
		}),
		taken: f.NewCounterVec(prometheus.CounterOpts{
			Name: "tracefleet_pool_taken_total",
			Help: "Sandboxes handed to jobs: warm, adjusted or cold.",
		}, []string{"how"}),
		wait: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "tracefleet_pool_wait_seconds",
			Help:    "Time a job waited for its sandbox.",
			Buckets: []float64{.0001, .001, .01, .03, .1, .3, 1, 3, 10, 30, 60},
		}),
		launch: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "tracefleet_pool_launch_seconds",
			Help:    "Time of a successful launch, until the interpreter waits.",
			Buckets: []float64{.02, .04, .06, .08, .1, .15, .2, .3, .5, 1, 2, 5, 15, 60},
		}),
		failed: f.NewCounter(prometheus.CounterOpts{
			Name: "tracefleet_pool_launch_failures_total",
			Help: "Launches that failed.",
		}),
		discarded: f.NewCounterVec(prometheus.CounterOpts{
			Name: "tracefleet_pool_discarded_total",
			Help: "Sandboxes removed unused, by reason.",
		}, []string{"reason"}),
	}
	// Every series is there from the start, so that rates have a zero to start from.
	for _, s := range []string{stateLaunching, stateWarm, stateRunning, stateClosing, stateQuarantined} {
		m.sandboxes.WithLabelValues(s)
	}
	for _, how := range []string{takenWarm, takenAdjusted, takenCold} {
		m.taken.WithLabelValues(how)
	}
	for _, reason := range []string{
		discardDied, discardAged, discardRecycled, discardEvicted, discardAdjust, discardAbandoned, discardDrained,
	} {
		m.discarded.WithLabelValues(reason)
	}
	return m
}
