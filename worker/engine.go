package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/doctor"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/sandbox/canary"
	"github.com/execra/tracefleet/internal/sandbox/docker"
)

func (s *session) engineConfig(metrics *docker.Metrics) docker.Config {
	return docker.Config{Image: s.Image, Runtime: s.Runtime, Fleet: s.Fleet, Worker: s.workerName(), Metrics: metrics}
}

// openEngine connects to the container engine and removes what dead workers of this fleet left there.
func (s *session) openEngine(metrics *docker.Metrics, log *zap.Logger) (*docker.Engine, error) {
	engine, err := docker.Open(s.ctx, s.engineConfig(metrics), log)
	if err != nil {
		return nil, fmt.Errorf("open the engine: %w", err)
	}
	n, err := engine.Reap(s.ctx)
	switch {
	case err != nil:
		log.Warn("remove what dead workers left", zap.Error(err)) // it is tried again
	case n > 0:
		log.Info("removed what dead workers left", zap.Int("containers", n))
	}
	return engine, nil
}

// checkDigest refuses another image than the one that was asked for.
func (s *session) checkDigest(f docker.Facts) error {
	if s.Digest == "" || s.Digest == f.ImageID {
		return nil
	}
	return cli.Failf(cli.CodeFailed, "--image-digest: the image %s here is %s; build or load the right one, or name another digest", f.Image, f.ImageID)
}

// doctorCmd checks what a worker needs.
type doctorCmd struct {
	Format string `once:"" enum:"text,json" default:"text" placeholder:"FORM" help:"text or json."`
}

// Help explains the command in its --help.
func (*doctorCmd) Help() string {
	return `Looks at Redis, the engine, the machine, and a sandbox from the inside, and says what to do about what is missing or known to be broken. The exit code is 1 when a check failed. Warnings do not fail.`
}

// doctorTimeout bounds all checks together.
const doctorTimeout = time.Minute

// Run carries the command out.
func (c *doctorCmd) Run(s *session) error {
	ctx, cancel := context.WithTimeout(s.ctx, doctorTimeout)
	defer cancel()
	rows, err := s.redisRows(ctx)
	if err != nil {
		return err
	}
	rows = append(rows, s.engineRows(ctx)...)
	write := map[string]func(io.Writer, []doctor.Row) error{"text": doctor.Text, "json": doctor.JSON}[c.Format]
	if err := write(s.stdout, rows); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	if !doctor.Healthy(rows) {
		return cli.Failf(cli.CodeFailed, "a check failed; see above for what to do")
	}
	return nil
}

func (s *session) redisRows(ctx context.Context) ([]doctor.Row, error) {
	_, embedded, err := embeddedAddress(s.Redis)
	if err != nil {
		return nil, err
	}
	if embedded {
		return doctor.Redis(s.Redis, ledger.ServerFacts{Embedded: true}, nil), nil
	}
	client, err := queue.OpenRedis(queue.RedisOptions{URL: s.Redis, PasswordFile: s.RedisPasswordFile})
	if err != nil {
		return nil, cli.Usagef("--redis: %w", err)
	}
	defer func() { _ = client.Close() }() // it was only asked
	facts, err := ledger.CheckServer(ctx, client)
	return append(doctor.Redis(queue.ShownURL(s.Redis), facts, err), doctor.RedisAccess(s.Redis, s.RedisPasswordFile != "")...), nil
}

func (s *session) engineRows(ctx context.Context) []doctor.Row {
	engine, err := docker.Open(ctx, s.engineConfig(nil), zap.NewNop())
	if err != nil {
		return doctor.EngineDown(s.Engine, err)
	}
	defer func() { _ = engine.Close() }() // it was only asked
	f := engine.Facts()
	rows := doctor.Engine{
		Name: s.Engine, Version: f.EngineVersion, APIVersion: f.APIVersion, OCIRuntime: f.OCIRuntime, GVisor: f.GVisor,
		CgroupVersion: f.CgroupVersion, CgroupDriver: f.CgroupDriver, StorageDriver: f.StorageDriver,
		Kernel: f.KernelVersion, SecurityOptions: f.SecurityOptions, RuncVersion: f.RuncVersion, RuntimeArgs: f.RuntimeArgs,
		Warnings: f.Warnings, Image: f.Image, ImageID: f.ImageID,
	}.Rows()
	rows = append(rows, doctor.ReadHost("/", f.RootDir).Rows()...)
	return append(rows, doctor.Canary(canary.Look(ctx, engine)))
}
