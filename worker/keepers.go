package main

import (
	"github.com/execra/tracefleet/internal/census"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/reconcile"
	"github.com/execra/tracefleet/internal/roster"
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
