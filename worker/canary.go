package main

import (
	"errors"
	"fmt"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/sandbox/canary"
)

// guard puts a canary before the sandboxes of next, and lets it look for the
// first time: a worker whose sandboxes do not hold takes no job at all.
func (s *session) guard(next sandbox.Launcher, p parts) (*canary.Guard, error) {
	g := canary.New(next, p.engine, canary.Config{AwaitChange: p.engine.AwaitChange}, p.log)
	err := g.Look(s.ctx)
	switch {
	case errors.Is(err, sandbox.ErrRefused):
		return nil, cli.Failf(cli.CodeFailed, "this worker takes no jobs: %w; see worker doctor and docs/security.md", err)
	case err != nil:
		return nil, fmt.Errorf("start a first sandbox: %w", err)
	}
	return g, nil
}
