package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/execra/tracefleet/internal/api/access"
	"github.com/execra/tracefleet/internal/intake"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/webhook"
)

// ProblemType is what every problem's type begins with.
const ProblemType = "urn:tracefleet:problem:"

// Problem is an error as RFC 9457 has it. It never holds a value from the request, and so no program text.
type Problem struct {
	Type   string `json:"type" doc:"Which problem it is: urn:tracefleet:problem: and a name. Clients branch on it."`
	Title  string `json:"title" doc:"The problem in a few words, the same each time."`
	Status int    `json:"status" doc:"The HTTP status."`
	Detail string `json:"detail" doc:"What is wrong this time, and what to do."`
	// Instance names the request.
	Instance string  `json:"instance" doc:"The path of the request."`
	Errors   []Fault `json:"errors,omitempty" doc:"Each field at fault."`
	// Retryable says whether the same request can succeed later.
	Retryable bool   `json:"retryable" doc:"Whether the same request can succeed later."`
	RequestID string `json:"request_id" doc:"The id of the request in the server's log."`

	retryAfter time.Duration
	allow      string
}

// Fault is one field at fault.
type Fault struct {
	Location string `json:"location" doc:"Where: body, query, header or path, and the field, such as body.limits.wall_ms."`
	Message  string `json:"message" doc:"What must hold."`
}

// Error gives the detail.
func (p *Problem) Error() string { return p.Detail }

func problem(status int, name, title, format string, args ...any) *Problem {
	return &Problem{Type: ProblemType + name, Title: title, Status: status, Detail: fmt.Sprintf(format, args...)}
}

func (p *Problem) after(d time.Duration) *Problem {
	p.retryAfter, p.Retryable = d, true
	return p
}

func (p *Problem) at(location, message string) *Problem {
	p.Errors = append(p.Errors, Fault{Location: location, Message: message})
	return p
}

// The waits that are told to clients, in want of better knowledge.
const (
	// retryAway is for a Redis that is away: the client library looks once a second whether it is back.
	retryAway    = time.Second
	retryBusy    = 5 * time.Second
	retryLimited = time.Second
)

func notFound(what string) *Problem {
	return problem(http.StatusNotFound, "not-found", "Not found",
		"There is no such %s: it was never here, its retention is over, or it belongs to another tenant.", what)
}

func invalid(location, message string) *Problem {
	return problem(http.StatusUnprocessableEntity, "invalid", "Invalid request", "%s: %s.", location, message).at(location, message)
}

// problemOf turns whatever an operation returned into a problem. Errors it does not know are
// errors of Redis, which the ledger passes on wrapped: the fleet cannot be reached.
func problemOf(err error) *Problem {
	var p *Problem
	var faults *job.ValidationError
	var large *ledger.TooLargeError
	var full *ledger.FullError
	var body *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &faults):
		return invalidJob(faults)
	case errors.As(err, &large):
		return problem(http.StatusRequestEntityTooLarge, "too-large", "Too large", "The job is too large: %v.", large)
	case errors.As(err, &body):
		return problem(http.StatusRequestEntityTooLarge, "too-large", "Too large", "The body must be at most %d bytes.", body.Limit)
	case errors.As(err, &full):
		return problem(http.StatusTooManyRequests, "queue-full", "The fleet has enough to do", "%v.", full).after(full.RetryAfter)
	case errors.Is(err, intake.ErrNotFound):
		return notFound("trace")
	case errors.Is(err, webhook.ErrNotFound):
		return notFound("webhook")
	case errors.Is(err, intake.ErrConflict):
		return problem(http.StatusUnprocessableEntity, "id-reused", "The id is taken",
			"The id belongs to a job with other input. Choose another id, or send the same input.").at("body.id", "belongs to a job with other input")
	case errors.Is(err, ledger.ErrNotDead):
		return notFound("dead letter")
	case errors.Is(err, intake.ErrNotFinished):
		return problem(http.StatusConflict, "not-finished", "Not finished yet", "The job has no result yet; wait for it with ?wait=25s.").after(time.Second)
	case errors.Is(err, ledger.ErrNoKey):
		return problem(http.StatusInternalServerError, "no-key", "The job cannot be read here", "What is stored of this job is encrypted with a key that this server was not given.")
	case errors.Is(err, ledger.ErrCorrupt):
		return problem(http.StatusInternalServerError, "corrupt", "The stored job is damaged", "What is stored of this job cannot be read.")
	}
	return accessProblem(err)
}

func accessProblem(err error) *Problem {
	switch {
	case errors.Is(err, access.ErrMissing):
		return problem(http.StatusUnauthorized, "unauthorized", "Sign in", "Send a token: Authorization: Bearer tf_….")
	case errors.Is(err, access.ErrInvalid):
		return problem(http.StatusUnauthorized, "unauthorized", "Sign in", "The token or session is not known here.")
	case errors.Is(err, access.ErrCrossOrigin):
		return problem(http.StatusForbidden, "cross-origin", "Refused", "The request comes from another web site.")
	case errors.Is(err, access.ErrHost):
		return problem(http.StatusForbidden, "host", "Refused", "Without tokens this server answers to localhost and loopback addresses only.")
	case errors.Is(err, context.Canceled):
		return problem(499, "canceled", "The client left", "The client closed the connection.")
	}
	return problem(http.StatusServiceUnavailable, "unavailable", "The fleet cannot be reached", "Redis does not answer as it should; try again.").after(retryAway)
}

func invalidJob(e *job.ValidationError) *Problem {
	p := problem(http.StatusUnprocessableEntity, "invalid", "Invalid request", "The job must not be run as it is; see errors.")
	for _, f := range e.Fields {
		location := "body"
		if f.Field != "" {
			location += "." + f.Field
		}
		p.at(location, f.Message)
	}
	if e.Omitted > 0 {
		p.Detail += fmt.Sprintf(" %d more are left out.", e.Omitted)
	}
	return p
}

// successHeaders speak of an answer that has not come about once an operation fails: what one has set before is not sent.
func successHeaders() []string {
	return []string{"Location", "ETag", "Retry-After", "Idempotent-Replayed", "Preference-Applied"}
}

// fail answers with a problem, and logs what is the server's fault with its cause.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := *problemOf(err)
	p.Instance, p.RequestID = r.URL.EscapedPath(), requestID(r)
	if p.Status >= http.StatusInternalServerError {
		a.logFault(r, err)
	}
	h := w.Header()
	for _, name := range successHeaders() {
		h.Del(name)
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="tracefleet"`)
	}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retryAfter.Seconds()))))
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // The client may have gone.
}
