package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/buildinfo"
	"github.com/execra/tracefleet/internal/detach"
)

// NewRegistry returns a registry that already holds the metrics of the
// process, of the Go runtime, and tracefleet_build_info.
func NewRegistry() *prometheus.Registry {
	info := buildinfo.Get()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tracefleet_build_info", Help: "Always 1; the labels say which build is running.",
		ConstLabels: prometheus.Labels{"version": info.Version, "revision": info.Revision, "go": info.GoVersion},
	})
	build.Set(1)
	reg := prometheus.NewRegistry()
	reg.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// Times of the server. Its clients are probes and scrapers that ask for small pages.
const (
	headerTimeout   = 5 * time.Second
	answerTimeout   = 30 * time.Second
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 5 * time.Second
	maxHeaderBytes  = 16 << 10
)

// Server answers on one address:
//
//	GET /metrics  the metrics of a registry, for Prometheus
//	GET /healthz  200 while the process can answer at all
//	GET /readyz   200 when every check passes, else 503; JSON with each check
//
// It has no authentication and no profiler; bind it to an address that only operators reach.
type Server struct {
	listener net.Listener
	http     *http.Server
	log      *zap.Logger
}

// Listen binds addr (host:port, port 0 picks a free one), so that a taken
// port is an error at start. The caller calls Run.
func Listen(ctx context.Context, addr string, metrics prometheus.Gatherer, checks *Checks, log *zap.Logger) (*Server, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics and health: %w", err)
	}
	return &Server{
		listener: listener,
		log:      log,
		http: &http.Server{
			Handler: handler(metrics, checks), ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
			WriteTimeout: answerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
			ErrorLog: zap.NewStdLog(log),
		},
	}, nil
}

// Addr is the address that is listened on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until ctx is done, then lets the answers under way finish, and
// returns nil; or the error that made serving impossible.
func (s *Server) Run(ctx context.Context) error {
	s.log.Info("serving metrics and health", zap.String("address", s.Addr()))
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve metrics and health: %w", err)
	case <-ctx.Done():
	}
	stopping, cancel := detach.Context(ctx, shutdownTimeout)
	defer cancel()
	err := s.http.Shutdown(stopping)
	if err != nil {
		err = errors.Join(fmt.Errorf("stop metrics and health: %w", err), s.http.Close())
	}
	<-served
	return err
}

func handler(metrics prometheus.Gatherer, checks *Checks) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{
		// One scraper is normal; more at once mean that answers are slow already.
		MaxRequestsInFlight: 4, Timeout: answerTimeout - time.Second,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		reports, ready := checks.Run(r.Context())
		code, status := http.StatusOK, "ok"
		if !ready {
			code, status = http.StatusServiceUnavailable, "not ready"
		}
		writeJSON(w, code, struct {
			Status string        `json:"status"`
			Checks []CheckReport `json:"checks"`
		}{status, reports})
	})
	return mux
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	// An error here means that the client has gone; there is nobody to tell.
	_ = json.NewEncoder(w).Encode(v)
}
