package main

import (
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/census"
	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/reconcile"
	"github.com/execra/tracefleet/internal/roster"
	"github.com/execra/tracefleet/internal/sandbox/budget"
	"github.com/execra/tracefleet/internal/sandbox/docker"
)

// keepers are the parts that look after what stands in Redis. Every worker runs them; for those that change
// something a lock lets one work.
func (s *session) keepers(p parts, book *ledger.Ledger, producer *queue.Producer) ([]part, error) {
	reconciler, err := reconcile.New(p.redis.client, book, producer, reconcile.Config{Metrics: reconcile.NewMetrics(p.metrics), Log: p.log})
	if err != nil {
		return nil, err
	}
	sweeper, err := reconcile.NewSweeper(p.redis.client, book, producer, queue.NewAuditor(producer), reconcile.SweepConfig{
		Metrics: reconcile.NewSweepMetrics(p.metrics), Log: p.log,
	})
	if err != nil {
		return nil, err
	}
	counter, err := census.New(book, producer, roster.NewBoard(p.redis.client), census.Config{Metrics: census.NewMetrics(p.metrics), Log: p.log})
	if err != nil {
		return nil, err
	}
	return []part{reconciler.Run, sweeper.Run, counter.Run}, nil
}

// openLedger opens the ledger, with the keys that encrypt what stands in Redis if there is a file of them.
func (s *session) openLedger(p parts) (*ledger.Ledger, error) {
	config := ledger.Config{Metrics: ledger.NewMetrics(p.metrics), Log: p.log}
	if s.KeyFile != "" {
		var err error
		if config.Keys, err = ledger.ReadKeys(s.KeyFile); err != nil {
			return nil, cli.Usagef("--key-file: %w", err)
		}
	}
	return ledger.New(p.redis.client, config)
}

// checkDigest refuses another image than the one that was asked for.
func (s *session) checkDigest(f docker.Facts) error {
	if s.Digest == "" || s.Digest == f.ImageID {
		return nil
	}
	return cli.Failf(cli.CodeFailed, "--image-digest: the image %s here is %s; build or load the right one, or name another digest", f.Image, f.ImageID)
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
