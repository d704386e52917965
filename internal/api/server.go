package api

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/detach"
)

// Times and sizes of the server.
const (
	headerTimeout = 5 * time.Second
	// bodyTimeout is how long a client may take to send a body, drainTimeout one that nobody wants.
	bodyTimeout  = 30 * time.Second
	drainTimeout = 5 * time.Second
	// writeTimeout is how long a client may take to read an answer. It is longer than MaxWait, after which the answer comes.
	writeTimeout = time.Minute
	// idleTimeout is longer than clients keep idle connections, so that these end them, not we.
	idleTimeout     = 90 * time.Second
	shutdownTimeout = 15 * time.Second
	keepAlive       = 15 * time.Second
	maxHeaderBytes  = 32 << 10
)

// errStopping is why waits end when the server does.
var errStopping = errors.New("the server is stopping")

// API serves the fleet over HTTP. It is safe for concurrent use.
type API struct {
	cfg        Config
	operations []operation
	router     http.Handler
	document   fixed
	docsPage   fixed
	packer     *packer
	// limiters bound the requests of each token, failures those of each address that come with a wrong one.
	limiters *limiters
	failures *limiters
	metrics  *metrics
	// waiters, memory and bench bound what the requests under way take together.
	waiters *shares
	memory  *shares
	bench   chan struct{}

	// stopping is done when Run is to end: it ends waits early, with what there is to say.
	stopping context.Context
	stop     context.CancelCauseFunc
}

// New returns an API.
func New(ctx context.Context, cfg Config) (*API, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("api config: %w", err)
	}
	a := &API{cfg: cfg, operations: operations(), metrics: newMetrics(cfg.Registerer)}
	a.limiters = newLimiters(cfg.RatePerSecond, cfg.Burst)
	a.failures = newLimiters(failuresPerSecond, failuresAtOnce)
	a.waiters = newShares(int64(cfg.MaxWaiters), a.each(int64(cfg.MaxWaiters)))
	a.memory, a.bench = newShares(maxMemory, a.each(maxMemory)), newBench()
	a.stopping, a.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	var err error
	if a.packer, err = newPacker(); err != nil {
		return nil, err
	}
	document, err := Document(cfg.Version)
	if err != nil {
		return nil, err
	}
	page, err := renderDocs(cfg.Version)
	if err != nil {
		return nil, err
	}
	a.document, a.docsPage = a.packer.fix("application/openapi+json;version=3.1", document), a.packer.fix(htmlType, page)
	a.router = a.routes()
	return a, nil
}

// each is how much of a bounded good one token gets at most: half of it. Without tokens all clients are one.
func (a *API) each(total int64) int64 {
	if a.cfg.Guard.Open() {
		return total
	}
	return max(total/2, 1)
}

// Handler returns everything that the API serves.
func (a *API) Handler() http.Handler { return a.router }

func (a *API) routes() http.Handler {
	r := chi.NewRouter()
	r.Use(a.frame, middleware.GetHead)
	for i := range a.operations {
		o := &a.operations[i]
		r.MethodFunc(o.method, Prefix+o.path, func(w http.ResponseWriter, r *http.Request) { a.serve(o, w, r) })
	}
	r.Get(Prefix+"/openapi.json", a.serveDocument)
	r.Get("/docs", a.serveDocs)
	r.Get("/healthz", a.healthz)
	r.Get("/readyz", a.readyz)
	a.pages(r)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		a.fail(w, r, problem(http.StatusNotFound, "no-such-path", "Not found", "There is nothing at this path; see /docs."))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		p := problem(http.StatusMethodNotAllowed, "method", "Method not allowed", "This path does not know the method; see the Allow header.")
		p.allow = a.allowed(r.URL.Path)
		a.fail(w, r, p)
	})
	return r
}

// allowed lists the methods that a path knows.
func (a *API) allowed(path string) string {
	routes, ok := a.router.(chi.Routes)
	if !ok {
		return ""
	}
	allow := ""
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		if routes.Match(chi.NewRouteContext(), method, path) {
			if allow != "" {
				allow += ", "
			}
			allow += method
		}
	}
	return allow
}

// Server answers on one address.
type Server struct {
	api      *API
	listener net.Listener
	http     *http.Server
	tls      *tls.Config
	log      *zap.Logger
}

// Listen binds addr (host:port, port 0 picks a free one). At most maxConnections are served at one time; 0 is
// DefaultMaxConnections. While others wait, idle ones are closed. With a TLS configuration connections are encrypted. The caller calls Run, or Close.
func (a *API) Listen(ctx context.Context, addr string, maxConnections int, secure *tls.Config) (*Server, error) {
	maxConnections = cmp.Or(maxConnections, DefaultMaxConnections)
	lc := net.ListenConfig{KeepAlive: keepAlive}
	listener, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the API: %w", err)
	}
	bounded := newBoundedListener(listener, maxConnections)
	return &Server{
		api: a, listener: bounded, tls: secure, log: a.cfg.Log,
		http: &http.Server{
			Handler: a.router, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ConnState: bounded.changed,
			ErrorLog: zap.NewStdLog(a.cfg.Log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))),
		},
	}, nil
}

// Addr is the address that is listened on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until ctx is done. Then waits end with the state as it is, answers under way finish, and Run
// returns nil; or the error that made serving impossible.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() {
		if s.tls != nil {
			s.http.TLSConfig = s.tls
			served <- s.http.ServeTLS(s.listener, "", "")
			return
		}
		served <- s.http.Serve(s.listener)
	}()
	select {
	case err := <-served:
		s.api.stop(errStopping)
		return fmt.Errorf("serve the API: %w", err)
	case <-ctx.Done():
	}
	s.api.cfg.Checks.Drain()
	s.api.stop(errStopping)
	stopping, cancel := detach.Context(ctx, shutdownTimeout)
	defer cancel()
	err := s.http.Shutdown(stopping)
	if err != nil {
		// Who does not read their answer in this time is cut off.
		err = s.http.Close()
	}
	<-served
	return err
}

// Close frees the address of a Server that was never run.
func (s *Server) Close() error {
	s.api.stop(errStopping)
	return s.listener.Close()
}
