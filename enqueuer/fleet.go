package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/intake"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/roster"
)

// reachTimeout bounds the first round trip to Redis.
const reachTimeout = 5 * time.Second

// fleet is the way to the fleet through its Redis.
type fleet struct {
	redis    redis.UniversalClient
	producer *queue.Producer
	desk     *intake.Desk
	ledger   *ledger.Ledger
	// maxima are the largest limits that every live worker takes.
	maxima job.Limits
}

// wiring is what a command wants of its way to the fleet. The zero value is for those that only ask.
type wiring struct {
	// admission bounds what is submitted.
	admission ledger.Admission
	// metrics and log are for commands that run for long; nil for none.
	metrics prometheus.Registerer
	log     *zap.Logger
}

// connect opens the fleet's Redis and makes sure that it answers.
func (s *session) connect(w wiring) (*fleet, error) {
	client, err := queue.OpenRedis(queue.RedisOptions{URL: s.Redis, PasswordFile: s.RedisPasswordFile})
	if err != nil {
		return nil, cli.Usagef("--redis: %w", err)
	}
	f := &fleet{redis: client}
	config := ledger.Config{Admission: w.admission, Metrics: ledger.NewMetrics(w.metrics), Log: w.log}
	if s.KeyFile != "" {
		if config.Keys, err = ledger.ReadKeys(s.KeyFile); err != nil {
			f.close()
			return nil, cli.Usagef("--key-file: %w", err)
		}
	}
	if err := f.open(s.ctx, config, queue.Config{Metrics: queue.NewMetrics(w.metrics)}); err != nil {
		f.close()
		return nil, s.explain(err, "")
	}
	return f, nil
}

func (f *fleet) open(ctx context.Context, config ledger.Config, transport queue.Config) error {
	ctx, cancel := context.WithTimeoutCause(ctx, reachTimeout, fmt.Errorf("no answer within %s", reachTimeout))
	defer cancel()
	if err := f.redis.Ping(ctx).Err(); err != nil {
		return &unreachableError{err: err}
	}
	workers, err := roster.NewBoard(f.redis).Look(ctx)
	if err != nil {
		return &unreachableError{err: err}
	}
	f.maxima = workers.Maxima
	if f.producer, err = queue.NewProducer(f.redis, transport); err != nil {
		return err
	}
	if f.ledger, err = ledger.New(f.redis, config); err != nil {
		return err
	}
	f.desk, err = intake.New(f.ledger, f.producer, intake.Config{Log: config.Log})
	return err
}

// close is safe after a failed open. What it closes was only asked and told
// things that have been answered, so its errors change nothing.
func (f *fleet) close() {
	if f.ledger != nil {
		_ = f.ledger.Close()
	}
	_ = f.redis.Close()
}

// errStillOpen means that a wait is over and the job is not.
var errStillOpen = errors.New("not finished")

// wait waits for the result of a job for at most limit.
func (f *fleet) wait(ctx context.Context, id string, limit time.Duration) (job.Result, error) {
	timed, cancel := context.WithTimeoutCause(ctx, limit, errStillOpen)
	defer cancel()
	result, err := f.desk.Wait(timed, id)
	if !errors.Is(err, errStillOpen) {
		return result, err
	}
	// No news come from a Redis that is away, so only a look tells that the job is open.
	looking, done := context.WithTimeout(ctx, reachTimeout)
	defer done()
	if _, lookErr := f.desk.Get(looking, id); lookErr != nil {
		return result, lookErr
	}
	return result, err
}

// unreachableError means that Redis does not answer, or not to us.
type unreachableError struct{ err error }

// Error gives the reason.
func (e *unreachableError) Error() string { return e.err.Error() }

// Unwrap gives the reason.
func (e *unreachableError) Unwrap() error { return e.err }

// explain turns an error about the job id into one that says what to do, with
// its exit code.
func (s *session) explain(err error, id string) error {
	var unreachable *unreachableError
	var tooLarge *ledger.TooLargeError
	var full *intake.FullError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unreachable):
		return cli.Failf(cli.CodeFailed, "cannot work with the Redis at %s: %s; %s", queue.ShownURL(s.Redis), ledger.Reason(unreachable.err), ledger.Advice(unreachable.err))
	case errors.Is(err, intake.ErrNotFound) && id == "":
		return cli.Failf(cli.CodeNotFound, "the id is empty; submit prints the id of a job")
	case errors.Is(err, intake.ErrNotFound):
		return cli.Failf(cli.CodeNotFound, "there is no job %s: it was never submitted here, or its retention is over", id)
	case errors.Is(err, intake.ErrConflict):
		return cli.Failf(cli.CodeRefused, "the id %s belongs to a job with other input; choose another id", id)
	case errors.As(err, &full):
		return &cli.Error{Code: cli.CodeRefused, Err: full}
	case errors.As(err, &tooLarge):
		return &cli.Error{Code: cli.CodeRefused, Err: err}
	case errors.Is(err, context.Canceled):
		return cli.Failf(cli.CodeFailed, "interrupted")
	case lost(err) != nil:
		advice := ledger.Advice(err)
		if id != "" {
			advice += fmt.Sprintf(". The job stays where it is; then ask for it with: enqueuer get %s --wait 10m", id)
		}
		return cli.Failf(cli.CodeFailed, "lost the Redis at %s: %s; %s", queue.ShownURL(s.Redis), ledger.Reason(lost(err)), advice)
	case errors.Is(err, errStillOpen):
		return cli.Failf(cli.CodeFailed, "%s is not finished yet; go on waiting with: enqueuer get %s --wait 10m", id, id)
	}
	return refused(err)
}

// lost is the fault of the connection that err is about, nil when it is about something else.
func lost(err error) error {
	var fault *net.OpError
	switch {
	case errors.As(err, &fault):
		return fault
	case errors.Is(err, io.EOF):
		return errors.New("it closed the connection")
	}
	return nil
}
