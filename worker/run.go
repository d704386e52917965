package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/execra/tracefleet/internal/buildinfo"
	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ops"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/roster"
	"github.com/execra/tracefleet/internal/runner"
	"github.com/execra/tracefleet/internal/sandbox/budget"
	"github.com/execra/tracefleet/internal/sandbox/canary"
	"github.com/execra/tracefleet/internal/sandbox/docker"
	"github.com/execra/tracefleet/internal/sandbox/pool"
)

// Run carries the command out: settings, Redis, engine, and then the work.
func (*runCmd) Run(s *session) (err error) {
	if err := s.checkCounts(); err != nil {
		return err
	}
	maxima, err := s.limits()
	if err != nil {
		return err
	}
	log, err := ops.NewLogger(ops.LogConfig{Format: s.LogFormat, Level: s.LogLevel, Output: zapcore.AddSync(s.stderr)})
	if err != nil {
		return cli.Usagef("%w", err)
	}
	log = log.With(zap.String("worker", s.workerName()))
	log.Info("worker is starting", zap.String("build", buildinfo.Get().String()))

	server, err := s.openRedis(log)
	if err != nil {
		return err
	}
	defer server.close()
	if err := server.check(s.ctx, log); err != nil {
		return err
	}
	member, err := roster.Join(s.ctx, server.client, s.Fleet, s.workerName(), log)
	if err != nil {
		return server.explain(err)
	}
	defer member.Leave(s.ctx)
	metrics := ops.NewRegistry()
	engine, err := s.openEngine(docker.NewMetrics(metrics), log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	if err := s.checkDigest(engine.Facts()); err != nil {
		return err
	}
	if maxima, err = s.fitBudget(maxima, engine.Facts().MemoryBytes, log); err != nil {
		return err
	}
	return s.work(parts{redis: server, member: member, engine: engine, maxima: maxima, metrics: metrics, log: log})
}

// parts are what the work is done with.
type parts struct {
	redis   *redisServer
	member  *roster.Member
	engine  *docker.Engine
	maxima  job.Limits
	metrics *prometheus.Registry
	log     *zap.Logger
}

// work puts the parts together that take jobs and run them, and waits for their end.
func (s *session) work(p parts) error {
	book, err := s.openLedger(p)
	if err != nil {
		return err
	}
	defer func() { _ = book.Close() }() // its goroutine only waits for messages
	watch := &watcher{slots: s.concurrency(), lost: p.engine.Quarantined, log: p.log, ask: func(ctx context.Context) error {
		_, err := p.engine.Remaining(ctx)
		return err
	}}
	queueConfig := queue.Config{
		Concurrency: s.concurrency(), Unavailable: watch.unavailable, DrainGrace: time.Duration(s.Grace), Retention: time.Duration(s.Retention),
		Metrics: queue.NewMetrics(p.metrics),
	}
	producer, err := queue.NewProducer(p.redis.client, queueConfig)
	if err != nil {
		return err
	}
	stock, guard, err := s.sandboxes(p)
	if err != nil {
		return err
	}
	jobs, err := runner.New(book, guard, runner.Config{
		Worker: s.workerName(), Maxima: p.maxima, Metrics: runner.NewMetrics(p.metrics), Log: p.log,
	})
	if err != nil {
		return err
	}
	consumer, err := queue.NewConsumer(p.redis.client, queueConfig, jobs.Handle, p.log)
	if err != nil {
		return err
	}
	keepers, err := s.keepers(p, book, producer)
	if err != nil {
		return err
	}
	checks, err := readiness(p.redis.client, p.engine, guard, s.concurrency())
	if err != nil {
		return err
	}
	beside := []part{
		stock.Run,
		guard.Run,
		watch.run,
		p.redis.run,
		p.member.Run,
		func(ctx context.Context) error { return reap(ctx, p.engine, p.log) },
	}
	beside = append(beside, keepers...)
	beside, err = s.serveMetrics(beside, p, checks)
	if err != nil {
		return err
	}
	if err := p.member.Offer(p.maxima); err != nil {
		return err
	}
	p.log.Info("worker is ready", zap.String("redis", p.redis.address), zap.Int("concurrency", s.concurrency()),
		zap.String("image", p.engine.Facts().ImageID), zap.String("runtime", p.engine.Facts().OCIRuntime))
	return runGroup(s.ctx, group{consumer: consumer, beside: beside, checks: checks, signals: s.signals, log: p.log})
}

// serveMetrics adds the server for operators to parts, if it is asked for.
func (s *session) serveMetrics(beside []part, p parts, checks *ops.Checks) ([]part, error) {
	if s.Metrics == "" {
		return beside, nil
	}
	server, err := ops.Listen(s.ctx, s.Metrics, p.metrics, checks, p.log)
	if err != nil {
		return nil, cli.Failf(cli.CodeFailed, "--metrics: %w; name a free address", err)
	}
	return append(beside, server.Run), nil
}

// sandboxes makes the stock of sandboxes, and the guard through which jobs get them.
func (s *session) sandboxes(p parts) (*pool.Pool, *canary.Guard, error) {
	stock, err := pool.New(p.engine, pool.Config{Concurrency: s.concurrency(), Warm: s.warm()}, pool.NewMetrics(p.metrics), p.log)
	if err != nil {
		return nil, nil, err
	}
	launcher, err := budget.New(stock, budget.Config{
		Bytes: int64(s.Budget), Quarantined: p.engine.Quarantined, Metrics: budget.NewMetrics(p.metrics),
	})
	if err != nil {
		return nil, nil, err
	}
	guard, err := s.guard(launcher, p)
	return stock, guard, err
}

// checkTimeout bounds one readiness check.
const checkTimeout = 5 * time.Second

// readiness says when this worker can take jobs.
func readiness(rdb redis.UniversalClient, engine *docker.Engine, guard *canary.Guard, slots int) (*ops.Checks, error) {
	checks := &ops.Checks{}
	return checks, errors.Join(
		checks.Add("redis", checkTimeout, func(ctx context.Context) error { return rdb.Ping(ctx).Err() }),
		checks.Add("engine", checkTimeout, func(ctx context.Context) error {
			_, err := engine.Remaining(ctx)
			return err
		}),
		checks.Add("canary", checkTimeout, func(context.Context) error { return guard.Fault() }),
		checks.Add("slots", checkTimeout, func(context.Context) error {
			if n := engine.Quarantined(); n >= slots {
				return fmt.Errorf("%d sandboxes could not be proven gone and take all %d slots; look at the engine", n, slots)
			}
			return nil
		}),
	)
}

// fitBudget makes sure that the largest job that this worker takes fits into its memory budget.
func (s *session) fitBudget(maxima job.Limits, hostBytes int64, log *zap.Logger) (job.Limits, error) {
	if s.Budget == 0 {
		s.Budget = cli.Size(budget.OfHost(hostBytes))
	}
	if maxima.MemoryBytes <= int64(s.Budget) {
		return maxima, nil
	}
	log.Warn("jobs of the whole fleet may ask for no more memory than the budget of this worker; raise --budget if they shall",
		zap.String("budget", job.FormatBytes(int64(s.Budget))), zap.String("largest", job.FormatBytes(maxima.MemoryBytes)))
	maxima.MemoryBytes = int64(s.Budget)
	if err := maxima.Validate(job.MaxLimits()); err != nil {
		return maxima, cli.Usagef("--budget: %s is not enough for any job", job.FormatBytes(int64(s.Budget)))
	}
	return maxima, nil
}
