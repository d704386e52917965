package api

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what the API counts. Labels are from closed sets: operations and statuses.
type metrics struct {
	requests *prometheus.HistogramVec
	waiters  prometheus.Gauge
}

// newMetrics registers with reg, which may be nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tracefleet_http_request_seconds", Help: "Time to answer, by operation and status; waits are part of it.",
			Buckets: []float64{.005, .02, .1, .5, 2, 10, 30},
		}, []string{"operation", "status"}),
		waiters: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tracefleet_http_waiters", Help: "Requests that wait for a result or listen to events.",
		}),
	}
	if reg != nil {
		for _, c := range []prometheus.Collector{m.requests, m.waiters} {
			// A second API in the process counts for itself only.
			_ = reg.Register(c)
		}
	}
	return m
}

func (m *metrics) observe(operation string, status int, took time.Duration) {
	m.requests.WithLabelValues(operation, strconv.Itoa(status)).Observe(took.Seconds())
}
