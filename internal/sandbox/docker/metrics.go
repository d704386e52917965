package docker

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts what this package does. Its methods may be called by several
// goroutines at once.
type Metrics struct {
	launches      *prometheus.CounterVec
	launchSeconds prometheus.Histogram
	engineErrors  *prometheus.CounterVec
	reaped        prometheus.Counter
	quarantined   prometheus.Gauge
}

// NewMetrics makes the metrics and registers them with r; with a nil r they
// count but are not exposed. It panics, as prometheus does, when r already has them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		launches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tracefleet_docker_launches_total",
			Help: "Sandboxes launched, by how that ended: ready, refused (settings read back differently), failed, canceled.",
		}, []string{"outcome"}),
		launchSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "tracefleet_docker_launch_seconds",
			Help:    "Time from the request for a sandbox until its interpreter waits for a job.",
			Buckets: []float64{.05, .1, .15, .2, .3, .5, .75, 1, 1.5, 2, 3, 5, 10, 30, 60},
		}),
		engineErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tracefleet_docker_engine_errors_total",
			Help: "Requests to the engine that failed or were not answered in time, by request.",
		}, []string{"op"}),
		reaped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tracefleet_docker_reaped_total",
			Help: "Containers removed because their worker was dead or their deadline had passed.",
		}),
		quarantined: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tracefleet_docker_quarantined",
			Help: "Containers of this worker whose end could not be proven so far.",
		}),
	}
	for _, outcome := range []string{launchReady, launchRefused, launchFailed, launchCanceled} {
		m.launches.WithLabelValues(outcome)
	}
	for _, op := range operations {
		m.engineErrors.WithLabelValues(op.label())
	}
	if r != nil {
		r.MustRegister(m.launches, m.launchSeconds, m.engineErrors, m.reaped, m.quarantined)
	}
	return m
}

// The ways a launch can end, as a label.
const (
	launchReady    = "ready"
	launchRefused  = "refused"
	launchFailed   = "failed"
	launchCanceled = "canceled"
)

// operation names a request to the engine, in errors and as a label.
type operation string

const (
	opPing         operation = "ping"
	opWatch        operation = "watch"
	opInfo         operation = "info"
	opInspectImage operation = "inspect image"
	opCreate       operation = "create container"
	opAttach       operation = "attach to container"
	opWait         operation = "wait for container"
	opStart        operation = "start container"
	opUpdate       operation = "update container"
	opInspect      operation = "inspect container"
	opKill         operation = "kill container"
	opRemove       operation = "remove container"
	opList         operation = "list containers"
)

// label is the operation as the value of a label.
func (op operation) label() string { return strings.ReplaceAll(string(op), " ", "_") }

var operations = []operation{
	opPing, opInfo, opInspectImage, opCreate, opAttach, opWait, opStart, opUpdate, opInspect, opKill, opRemove, opList, opWatch,
}

// failed counts a request that failed.
func (m *Metrics) failed(op operation) { m.engineErrors.WithLabelValues(op.label()).Inc() }

// launched counts a launch.
func (m *Metrics) launched(outcome string, took time.Duration) {
	m.launches.WithLabelValues(outcome).Inc()
	if outcome == launchReady {
		m.launchSeconds.Observe(took.Seconds())
	}
}
