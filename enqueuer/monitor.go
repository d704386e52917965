package main

import (
	"context"
	"fmt"

	"go.uber.org/zap/zapcore"

	"github.com/execra/tracefleet/internal/census"
	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/ops"
	"github.com/execra/tracefleet/internal/roster"
)

// monitorCmd serves the fleet's metrics.
type monitorCmd struct {
	Listen string `default:"127.0.0.1:9465" placeholder:"ADDR" help:"Address to listen on (${default})."`
}

// Help explains the command in its --help.
func (*monitorCmd) Help() string {
	return `Serves /metrics for Prometheus, /healthz and /readyz until it is interrupted: how many jobs wait and since when, how many dead letters there are, how full Redis is. Workers serve the same and more; this is for fleets that may have no worker at times, and that are scaled by what waits.`
}

// Run carries the command out.
func (c *monitorCmd) Run(s *session) error {
	log, err := ops.NewLogger(ops.LogConfig{Format: ops.LogConsole, Level: "info", Output: zapcore.AddSync(s.err)})
	if err != nil {
		return err
	}
	fleet, err := s.connect(wiring{log: log})
	if err != nil {
		return err
	}
	defer fleet.close()
	registry := ops.NewRegistry()
	counter, err := census.New(fleet.ledger, fleet.producer, roster.NewBoard(fleet.redis), census.Config{Metrics: census.NewMetrics(registry), Log: log})
	if err != nil {
		return err
	}
	checks := &ops.Checks{}
	err = checks.Add("redis", reachTimeout, func(ctx context.Context) error {
		_, err := ledger.CheckServer(ctx, fleet.redis)
		return err
	})
	if err != nil {
		return err
	}
	server, err := ops.Listen(s.ctx, c.Listen, registry, checks, log)
	if err != nil {
		return cli.Failf(cli.CodeFailed, "--listen: %w; name a free address", err)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	counted := make(chan error, 1)
	go func() { counted <- counter.Run(ctx) }()
	err = server.Run(ctx)
	cancel()
	if cerr := <-counted; err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("monitor: %w", err)
	}
	log.Info("monitor has stopped")
	return nil
}
