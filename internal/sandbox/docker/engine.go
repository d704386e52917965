// Package docker runs sandboxes as containers of a Docker engine, one container
// a job, through the engine's API.
//
// A sandbox is described in full by a pure function (newSpec), started, read
// back field by field, and used only when the engine took every setting as
// asked and warned of nothing. The worker talks to the supervisor inside over
// the container's stdin and stdout and by nothing else: the archive and exec
// interfaces and bind mounts, which let a container reach the host's files,
// are never used.
//
// Every request to the engine has a deadline of its own and does not die with
// the caller's context, so that a cancelled launch leaves nothing behind. A
// container whose end cannot be proven stays in quarantine, and Reap goes on trying.
package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/client"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/detach"
	"github.com/execra/tracefleet/internal/sandbox"
)

var _ sandbox.Launcher = (*Engine)(nil)

// Engine is a connection to a Docker engine that starts sandboxes. It may be
// used by several goroutines at once.
type Engine struct {
	cfg      Config
	cli      *client.Client
	log      *zap.Logger
	metrics  *Metrics
	host     host
	facts    Facts
	instance string
	opened   time.Time

	mu sync.Mutex
	// live holds the names of the containers whose sandboxes are not closed.
	live map[string]bool
	// quarantine holds the names of the containers that were started and whose end is not proven.
	quarantine map[string]bool
	// idle holds the containers of others that did not run when they were seen, each with when that was first.
	idle map[string]time.Time
}

// Open connects to the engine, checks that it can confine a sandbox, and
// resolves the image to its content address: what a tag means later does not
// matter. Every fault of cfg and every missing facility is reported at once.
// The engine is used until Close.
func Open(ctx context.Context, cfg Config, log *zap.Logger) (*Engine, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("docker engine: %w", err)
	}
	cli, err := newClient(cfg.Host)
	if err != nil {
		return nil, fmt.Errorf("docker engine: %w", err)
	}
	e := &Engine{
		cfg: cfg, cli: cli, log: log, metrics: cfg.Metrics, instance: randomHex(), opened: time.Now(),
		live: map[string]bool{}, quarantine: map[string]bool{}, idle: map[string]time.Time{},
	}
	if err := e.survey(ctx); err != nil {
		return nil, errors.Join(err, cli.Close())
	}
	return e, nil
}

// newClient makes a client for the given address, or for the one that the
// environment names, which speaks the newest version that both sides know.
func newClient(address string) (*client.Client, error) {
	opts := []client.Opt{client.FromEnv}
	if address != "" {
		opts = append(opts, client.WithHost(address))
	}
	cli, err := client.NewClientWithOpts(append(opts, client.WithAPIVersionNegotiation())...)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return cli, nil
}

// Close drops the connections to the engine. It does not close sandboxes: the
// owner of each does. Nothing may be launched afterwards.
func (e *Engine) Close() error {
	if err := e.cli.Close(); err != nil {
		return fmt.Errorf("close docker client: %w", err)
	}
	return nil
}

// Quarantined returns how many containers of this engine could not be proven
// gone so far. Each of them may still hold its memory and its processor.
func (e *Engine) Quarantined() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.quarantine)
}

// call makes one request under its own deadline, whatever became of ctx, and
// counts and wraps its failure.
func (e *Engine) call(ctx context.Context, op operation, timeout time.Duration, do func(context.Context) error) error {
	ctx, cancel := detach.Context(ctx, timeout)
	defer cancel()
	if err := do(ctx); err != nil {
		return e.failed(op, err)
	}
	return nil
}

// failed counts and wraps the failure of a request. What is gone already is no
// failure of the engine.
func (e *Engine) failed(op operation, err error) error {
	if !cerrdefs.IsNotFound(err) {
		e.metrics.failed(op)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// track notes that the container called name belongs to a living sandbox.
func (e *Engine) track(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.live[name] = true
}

// settled notes that the container called name is gone for good, or was never started.
func (e *Engine) settled(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.live, name)
	delete(e.quarantine, name)
	e.metrics.quarantined.Set(float64(len(e.quarantine)))
}

// suspect notes that the container called name could not be proven gone, and tells whether that is new.
func (e *Engine) suspect(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.quarantine[name]
	delete(e.live, name)
	e.quarantine[name] = true
	e.metrics.quarantined.Set(float64(len(e.quarantine)))
	return !known
}
