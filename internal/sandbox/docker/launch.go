package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/wire"
)

// labelSlack is added to the time a container may live: clocks differ, and
// engines take their time.
const labelSlack = 2 * time.Minute

// Launch starts a container and returns when its interpreter waits for a job.
// It refuses a container whose settings are not those asked for with a
// *RefusedError. Whatever fails, the container is removed, or in quarantine, or was
// never started and is left to Reap.
func (e *Engine) Launch(ctx context.Context, l job.Limits) (sandbox.Sandbox, error) {
	start := time.Now()
	b, err := e.launch(ctx, l)
	took := time.Since(start)
	switch {
	case err == nil:
		e.metrics.launched(launchReady, took)
		return b, nil
	case errors.Is(err, sandbox.ErrRefused):
		e.metrics.launched(launchRefused, took)
	case ctx.Err() != nil:
		e.metrics.launched(launchCanceled, took)
	default:
		e.metrics.launched(launchFailed, took)
	}
	return nil, fmt.Errorf("launch sandbox: %w", err)
}

func (e *Engine) launch(ctx context.Context, l job.Limits) (*box, error) {
	now := time.Now()
	idle := now.Add(e.cfg.MaxIdle)
	return e.bring(ctx, l, idle, newSpec(e.cfg, l, e.host, tag{
		Fleet: e.cfg.Fleet, Worker: e.cfg.Worker, Instance: e.instance,
		// The job that it gets may have a longer limit than the one that it is launched for.
		Launched: now, Deadline: idle.Add(job.MaxLimits().Wall() + e.cfg.StartTimeout + e.cfg.ReadyTimeout + labelSlack),
	}))
}

// bring makes a sandbox that is as asked and takes a job until the given time.
func (e *Engine) bring(ctx context.Context, l job.Limits, expires time.Time, asked spec) (*box, error) {
	if err := abandoned(ctx); err != nil {
		return nil, err
	}
	b := &box{
		e: e, name: containerName(), limits: l, asked: asked, expires: expires,
		stopWaiting: func() {}, waited: make(chan struct{}), closed: make(chan struct{}),
	}
	e.track(b.name)
	if err := b.boot(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	e.log.Debug("sandbox ready", zap.String("container_id", b.id))
	return b, nil
}

// boot takes a container from nothing to READY. The order matters: attached
// and waited for before it is started, a container that ends at once loses
// neither its output nor its end.
func (b *box) boot(ctx context.Context) error {
	if err := b.create(ctx, b.asked); err != nil {
		return err
	}
	var err error
	if b.conn, b.in, err = b.e.attach(ctx, b.id); err != nil {
		return err
	}
	b.stream = newDemux(b.in)
	b.frames = wire.NewDecoder(b.stream)
	if err := b.await(ctx); err != nil {
		return err
	}
	if err := abandoned(ctx); err != nil {
		return err
	}
	b.mayRun = true
	if err := b.e.call(ctx, opStart, b.e.cfg.StartTimeout, func(ctx context.Context) error {
		return b.e.cli.ContainerStart(ctx, b.id, container.StartOptions{})
	}); err != nil {
		return err
	}
	if err := b.verify(ctx, b.asked); err != nil {
		return err
	}
	return b.greet(ctx)
}

// create makes the container, and refuses it when the engine warns.
func (b *box) create(ctx context.Context, asked spec) error {
	var made container.CreateResponse
	if err := b.e.call(ctx, opCreate, b.e.cfg.CallTimeout, func(ctx context.Context) (err error) {
		made, err = b.e.cli.ContainerCreate(ctx, asked.Config, asked.HostConfig, asked.Network, nil, b.name)
		return err
	}); err != nil {
		return err
	}
	b.id = made.ID
	if len(made.Warnings) > 0 {
		return &RefusedError{Warnings: made.Warnings}
	}
	return nil
}

// await registers for the container's end. The engine confirms before it
// returns, so that no end is missed.
func (b *box) await(ctx context.Context) error {
	waiting, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stopWaiting = stop
	bound := time.AfterFunc(b.e.cfg.CallTimeout, stop)
	ended, failed := b.e.cli.ContainerWait(waiting, b.id, container.WaitConditionNextExit)
	if !bound.Stop() {
		return b.e.failed(opWait, context.DeadlineExceeded)
	}
	select {
	case err := <-failed:
		return b.e.failed(opWait, err)
	default:
	}
	b.waiting = true
	go func() {
		defer close(b.waited)
		select {
		case end := <-ended:
			b.exit = &end
		case err := <-failed:
			b.waitErr = err
		}
	}()
	return nil
}

// verify reads the settings back and refuses any difference.
func (b *box) verify(ctx context.Context, asked spec) error {
	got, err := b.inspect(ctx)
	if err != nil {
		return err
	}
	if diffs := readBack(asked, got); len(diffs) > 0 {
		return &RefusedError{Differences: diffs}
	}
	return nil
}

// greet waits for READY.
func (b *box) greet(ctx context.Context) error {
	if err := b.conn.SetReadDeadline(time.Now().Add(b.e.cfg.ReadyTimeout)); err != nil {
		return fmt.Errorf("wait for READY: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = b.conn.SetReadDeadline(time.Unix(1, 0)) })
	f, err := b.frames.Next()
	if !stop() {
		return abandoned(ctx)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("wait for READY: nothing came within %s%s", b.e.cfg.ReadyTimeout, b.lastWords(ctx))
	case err != nil:
		return fmt.Errorf("wait for READY: the sandbox ended: %w%s", err, b.lastWords(ctx))
	case f.Type == wire.Fail:
		return fmt.Errorf("wait for READY: %w", failure(f.Payload))
	case f.Type != wire.Ready:
		return fmt.Errorf("wait for READY: the sandbox sent %q", byte(f.Type))
	}
	if err := json.Unmarshal(f.Payload, &b.ready); err != nil {
		return fmt.Errorf("read READY: %w", err)
	}
	if b.ready.Version != wire.Version {
		return fmt.Errorf("the sandbox image speaks protocol %d, this worker %d: use the image of the worker's version, which `make setup` builds", b.ready.Version, wire.Version)
	}
	return b.conn.SetReadDeadline(time.Time{})
}

// lastWords says what is known about a sandbox that did not come up.
func (b *box) lastWords(ctx context.Context) string {
	var words []string
	// An OCI runtime that could not start PID 1 says so in the state only.
	if got, err := b.inspect(ctx); err == nil && !got.State.Running {
		words = append(words, fmt.Sprintf("exit code %d", got.State.ExitCode))
		if got.State.Error != "" {
			words = append(words, cut(got.State.Error))
		}
	}
	if len(b.stream.stderr) > 0 {
		words = append(words, fmt.Sprintf("stderr %q", cut(string(b.stream.stderr))))
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// failure is the error that a FAIL frame reports.
func failure(payload []byte) error {
	var info wire.FailInfo
	if err := json.Unmarshal(payload, &info); err != nil || info.Error == "" {
		return errors.New("the sandbox is broken and does not say why")
	}
	return fmt.Errorf("the sandbox is broken: %s", strings.ToValidUTF8(info.Error, "\uFFFD"))
}

// abandoned returns the reason why ctx is done, or nil. It matches ctx.Err().
func abandoned(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); err != nil && !errors.Is(cause, err) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
