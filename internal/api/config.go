package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/api/access"
	"github.com/execra/tracefleet/internal/api/monitor"
	"github.com/execra/tracefleet/internal/batch"
	"github.com/execra/tracefleet/internal/intake"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/ops"
	"github.com/execra/tracefleet/internal/webhook"
)

// The defaults of Config.
const (
	DefaultMaxWaiters     = 2000
	DefaultMaxConnections = 4096
	DefaultRate           = 100
	DefaultBurst          = 200
)

// MaxWait is the longest that one request waits for a result. It is below the time-outs of common proxies.
const MaxWait = 30 * time.Second

// Desk takes jobs in and hands results out; package intake documents each method.
type Desk interface {
	// Submit takes a job in, once per id.
	Submit(ctx context.Context, j job.Job) (id string, existed bool, err error)
	// Get returns what is known of a job.
	Get(ctx context.Context, id string) (ledger.Entry, error)
	// Result returns the result of a finished job.
	Result(ctx context.Context, id string) (job.Result, error)
	// Wait returns the result as soon as there is one.
	Wait(ctx context.Context, id string) (job.Result, error)
	// Cancel cancels a job for good.
	Cancel(ctx context.Context, id string) (ledger.State, error)
}

// Book is what else the API reads of the ledger.
type Book interface {
	// Input returns the job that was submitted.
	Input(ctx context.Context, id string) (job.Job, error)
	// Change returns the entry as soon as the state is another.
	Change(ctx context.Context, id string, from ledger.State) (ledger.Entry, error)
}

// Batches is where batches are kept; packages batch and ledger document each method.
type Batches interface {
	batch.Book
	// StandingsOf tells where many jobs stand, as far as they are of one tenant.
	StandingsOf(ctx context.Context, tenant string, ids []string) ([]ledger.Standing, error)
}

// DeadLetters is where dead letters are looked up; package ledger documents each method.
type DeadLetters interface {
	// DeadLetters returns the dead letters that f chooses.
	DeadLetters(ctx context.Context, f ledger.DeadLetterFilter) ([]ledger.Entry, error)
	// DeadLetter returns one, with its attempts.
	DeadLetter(ctx context.Context, id string) (ledger.Entry, []ledger.Attempt, error)
}

// Office brings dead letters back into the queue.
type Office interface {
	// Requeue runs a dead letter again.
	Requeue(ctx context.Context, id string) error
}

// Hooks keeps callbacks; package webhook documents each method.
type Hooks interface {
	// Register keeps the callback of a job, or returns the one that there is.
	Register(ctx context.Context, c webhook.Callback) (found webhook.Callback, made bool, err error)
	// Forget takes the callback of a job with this digest out again.
	Forget(ctx context.Context, id, digest string) error
	// Get returns the delivery of a job.
	Get(ctx context.Context, id string) (webhook.Delivery, error)
	// Replay makes it due at once.
	Replay(ctx context.Context, id string) (webhook.Delivery, error)
}

var (
	_ Desk    = (*intake.Desk)(nil)
	_ Book    = (*ledger.Ledger)(nil)
	_ Batches = (*ledger.Ledger)(nil)
	_ Hooks   = (*webhook.Store)(nil)
)

// Config is what an API needs to know. Guard, Desk and Book are required.
type Config struct {
	Guard *access.Guard
	Desk  Desk
	Book  Book
	// Maxima gives the largest limits that are accepted now, such as those that all workers take. It must not wait. Default job.MaxLimits.
	Maxima func() job.Limits
	// Dead and Office are for dead letters; both or neither may be nil, and their operations answer 404 then.
	Dead   DeadLetters
	Office Office
	// Batches is where batches are kept; nil is for none.
	Batches Batches
	// Hooks may be nil: no callbacks then. Targets says where they may go, Poke wakes the sender after a replay.
	Hooks   Hooks
	Targets webhook.Targets
	Poke    func()
	// Monitor is asynqmon, or nil.
	Monitor *monitor.Monitor
	// Pages serves / and /traces/{id} and their parts, or is nil.
	Pages http.Handler
	// Checks says whether the process is ready, for /readyz; nil is always ready.
	Checks *ops.Checks

	// MaxWaiters bounds the requests that wait or listen at one time; what comes beyond is answered at once.
	MaxWaiters int
	// RatePerSecond and Burst bound the requests of one token.
	RatePerSecond float64
	Burst         int
	// Secure says that clients come over TLS, so that cookies are for TLS only.
	Secure bool
	// Version is shown in the OpenAPI document.
	Version string
	// Registerer takes the metrics; nil is for tests.
	Registerer prometheus.Registerer
	// Log may be nil.
	Log *zap.Logger
}

// WithDefaults returns c with every field filled in that has a default.
func (c Config) WithDefaults() Config {
	c.MaxWaiters = cmp.Or(c.MaxWaiters, DefaultMaxWaiters)
	c.RatePerSecond = cmp.Or(c.RatePerSecond, DefaultRate)
	c.Burst = cmp.Or(c.Burst, DefaultBurst)
	c.Version = cmp.Or(c.Version, "dev")
	if c.Maxima == nil {
		c.Maxima = job.MaxLimits
	}
	if c.Poke == nil {
		c.Poke = func() {}
	}
	if c.Checks == nil {
		c.Checks = &ops.Checks{}
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// Validate reports every fault of c, which must have its defaults filled in.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, text string) {
		if !ok {
			errs = append(errs, errors.New(text))
		}
	}
	check(c.Guard != nil, "Guard: is required")
	check(c.Desk != nil, "Desk: is required")
	check(c.Book != nil, "Book: is required")
	check(c.MaxWaiters > 0, "MaxWaiters: must be more than 0")
	check(c.RatePerSecond > 0, "RatePerSecond: must be more than 0")
	check(c.Burst > 0, "Burst: must be more than 0")
	return errors.Join(errs...)
}
