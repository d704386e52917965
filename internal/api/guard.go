package api

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/go-chi/chi/v5"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/api/access"
)

// apiPolicy is for answers that are no pages: nothing in them may act, should a browser show them.
const apiPolicy = "default-src 'none'; frame-ancestors 'none'; sandbox"

// requestFacts go with a request.
type requestFacts struct {
	id          string
	operation   string
	identity    access.Identity
	traceparent string
}

type factsKey struct{}

func facts(r *http.Request) *requestFacts {
	f, ok := r.Context().Value(factsKey{}).(*requestFacts)
	if !ok {
		return &requestFacts{} // a handler that runs outside of frame, in a test
	}
	return f
}

func requestID(r *http.Request) string { return facts(r).id }

// traceparentPattern is the header of W3C Trace Context, version 00 and what later ones begin with.
var traceparentPattern = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// incoming notes whether the body of a request was read to its end.
type incoming struct {
	io.ReadCloser
	ended bool
}

// Read notes the end.
func (b *incoming) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.ended = true
	}
	return n, err
}

// recorder notes the status of an answer, and gives its connection no more time than it needs.
type recorder struct {
	http.ResponseWriter
	status int
	body   *incoming // nil for a request without a body
}

// WriteHeader notes the status. From here on the client has to read; and what it has not sent of a body that nobody wanted, for which
// the server waits before it answers, has to come at once.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		control := http.NewResponseController(w.ResponseWriter)
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // A test's writer has no deadlines.
		if w.body != nil && !w.body.ended {
			_ = control.SetReadDeadline(time.Now().Add(drainTimeout))
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write notes that the status is 200, when nothing was said.
func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController find the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// frame goes around every request: an id, headers that harden, one log line, a plain answer should a handler panic.
func (a *API) frame(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := &requestFacts{id: rand.Text()[:16], operation: "other"}
		if tp := r.Header.Get("traceparent"); traceparentPattern.MatchString(tp) {
			f.traceparent = tp
			w.Header().Set("traceparent", tp)
		}
		r = r.WithContext(context.WithValue(r.Context(), factsKey{}, f))
		harden(w.Header(), f.id)
		rec, start := newRecorder(w, r), time.Now()
		defer func() {
			if cause := recover(); cause != nil {
				if cause == http.ErrAbortHandler {
					panic(cause) // how a handler drops a connection on purpose
				}
				a.cfg.Log.Error("a request handler panicked", zap.String("request_id", f.id), zap.Any("cause", cause), zap.ByteString("stack", debug.Stack()))
				if rec.status == 0 {
					a.fail(rec, r, problem(http.StatusInternalServerError, "internal", "Internal error", "The server has a fault; the request id names it in its log."))
				}
			}
			a.done(r, f, rec.status, time.Since(start))
		}()
		next.ServeHTTP(rec, r)
	})
}

// newRecorder goes between a handler and its connection, which is to be kept by no client that neither sends nor reads.
func newRecorder(w http.ResponseWriter, r *http.Request) *recorder {
	rec := &recorder{ResponseWriter: w}
	control := http.NewResponseController(w)
	// A deadline of the request before, on the same connection, must not end this one. A test's writer has no deadlines.
	_ = control.SetWriteDeadline(time.Now().Add(bodyTimeout + MaxWait + writeTimeout))
	if r.ContentLength != 0 && r.Body != nil && r.Body != http.NoBody {
		rec.body = &incoming{ReadCloser: r.Body}
		r.Body = rec.body
		_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	}
	return rec
}

func harden(h http.Header, id string) {
	h.Set("X-Request-Id", id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Content-Security-Policy", apiPolicy)
	h.Set("Cache-Control", "no-store")
}

// done counts and logs a request. The path is logged as a pattern: an id may say whose job it is.
func (a *API) done(r *http.Request, f *requestFacts, status int, took time.Duration) {
	a.metrics.observe(f.operation, status, took)
	pattern := ""
	if rc := chi.RouteContext(r.Context()); rc != nil {
		pattern = rc.RoutePattern()
	}
	a.cfg.Log.Debug("request", zap.String("request_id", f.id), zap.String("method", r.Method), zap.String("path", pattern),
		zap.Int("status", status), zap.Duration("took", took), zap.String("token", f.identity.Name), zap.String("traceparent", f.traceparent))
}

func (a *API) logFault(r *http.Request, err error) {
	f := facts(r)
	a.cfg.Log.Error("request failed", zap.String("request_id", f.id), zap.String("operation", f.operation), zap.Error(err))
}

// serve runs one operation of the table, after every check that the table asks for.
func (a *API) serve(o *operation, w http.ResponseWriter, r *http.Request) {
	f := facts(r)
	f.operation = o.id
	if err := a.enter(o, r, f); err != nil {
		a.fail(w, r, err)
		return
	}
	if err := o.run(a, w, r); err != nil {
		a.fail(w, r, err)
	}
}

// enter checks who asks, whether they may, how often they did, and the names of the parameters.
func (a *API) enter(o *operation, r *http.Request, f *requestFacts) error {
	identity, err := a.identify(r)
	if err != nil {
		return err
	}
	f.identity = identity
	if !identity.May(o.role) {
		return lacksRole(o.role, identity)
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("query", "must be name=value pairs, joined by &, with %XX for what is special")
	}
	return o.knownQuery(query)
}

func lacksRole(role access.Role, who access.Identity) *Problem {
	return problem(http.StatusForbidden, "forbidden", "Not allowed", "This needs the role %s, and the token has %s.", role, who.Role)
}

// identify tells who asks, and refuses those who ask too often: a token its requests, an address its wrong tokens.
func (a *API) identify(r *http.Request) (access.Identity, error) {
	who, err := a.cfg.Guard.Identify(r)
	if errors.Is(err, access.ErrInvalid) {
		return who, a.failed(r, err)
	}
	if err != nil {
		return who, err
	}
	if wait, ok := a.limiters.allow(who.Name, time.Now()); !ok {
		return who, problem(http.StatusTooManyRequests, "rate-limited", "Too many requests",
			"This token may send %g requests a second.", a.cfg.RatePerSecond).after(wait)
	}
	return who, nil
}

// failed counts a wrong token of an address, and returns err, or that there were too many. Right tokens are never kept out by
// wrong ones: many clients may share an address.
func (a *API) failed(r *http.Request, err error) error {
	if wait, ok := a.failures.allow(remoteNetwork(r), time.Now()); !ok {
		return problem(http.StatusTooManyRequests, "rate-limited", "Too many requests", "Too many wrong tokens came from this address.").after(wait)
	}
	return err
}
