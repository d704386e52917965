package pool

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
)

// ErrStopped is what Launch gives when the pool has stopped or is draining.
var ErrStopped = errors.New("the pool of sandboxes has stopped")

// ErrNoSandbox is what Launch gives when the job has waited Config.MaxWait. Unless the engine failed meanwhile the
// error matches sandbox.ErrNoRoom as well: then the host is busy, and nothing is wrong.
var ErrNoSandbox = errors.New("no sandbox came free")

// errLaunchTimeout ends a launch after Config.LaunchTimeout.
var errLaunchTimeout = errors.New("launch took too long")

// A Pool is a sandbox.Launcher that hands out sandboxes started in advance. All
// methods may be called by several goroutines at once, Run only once.
type Pool struct {
	launcher sandbox.Launcher
	cfg      Config
	metrics  *Metrics
	log      *zap.Logger

	// inbox takes messages to the goroutine of Run, which alone touches the keeper.
	inbox chan func(*keeper, time.Time)
	// done is closed when Run has returned.
	done    chan struct{}
	running atomic.Bool
	// generation counts the calls of Recycle; nudge tells Run of one.
	generation atomic.Int64
	nudge      chan struct{}
	// failure is the engine's last error while it fails, else nil.
	failure atomic.Pointer[error]
}

var _ sandbox.Launcher = (*Pool)(nil)

// New returns a pool over launcher. Nothing happens until Run. It fails when
// cfg, with its defaults, is not valid. A nil metrics counts nowhere.
func New(launcher sandbox.Launcher, cfg Config, metrics *Metrics, log *zap.Logger) (*Pool, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("pool config: %w", err)
	}
	if metrics == nil {
		metrics = NewMetrics(nil)
	}
	return &Pool{
		launcher: launcher, cfg: cfg, metrics: metrics, log: log,
		inbox: make(chan func(*keeper, time.Time)),
		done:  make(chan struct{}),
		nudge: make(chan struct{}, 1), // one nudge is as good as several
	}, nil
}

// Run keeps the pool until ctx is done, then drains it: waiting jobs get
// ErrStopped, waiting sandboxes are closed, running jobs may end within
// Config.DrainTimeout and are killed after it. It returns when no goroutine and no
// sandbox of the pool is left; the error then counts those whose end could not
// be proven. Run may be called once.
func (p *Pool) Run(ctx context.Context) error {
	if !p.running.CompareAndSwap(false, true) {
		return errors.New("pool: run called twice")
	}
	defer close(p.done)
	k := newKeeper(p)
	// Launches end when the drain says so, not a moment before: a failure that
	// we cause ourselves must not look like one of the engine.
	launchCtx, cancelLaunches := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelLaunches()
	stop := ctx.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := k.refresh()
		wake := k.schedule(launchCtx, now)
		k.report()
		if k.draining && k.empty() {
			break
		}
		var alarm <-chan time.Time
		if wake = earliest(wake, k.nextDue(now)); !wake.IsZero() {
			timer.Reset(time.Until(wake))
			alarm = timer.C
		}
		select {
		case <-stop:
			stop = nil
			k.drain(time.Now())
			cancelLaunches()
		case message := <-p.inbox:
			message(k, k.refresh())
		case <-p.nudge:
		case <-alarm:
		}
	}
	k.wg.Wait()
	if n := k.lost(); n > 0 {
		return fmt.Errorf("pool: %d sandboxes left in quarantine", n)
	}
	return nil
}

// Recycle makes the pool use no sandbox launched before the call: those that
// wait are replaced. It is for when the image has changed. It does not block.
func (p *Pool) Recycle() {
	p.generation.Add(1)
	select {
	case p.nudge <- struct{}{}:
	default: // Run has not yet read the last one
	}
}

// Launch returns a waiting sandbox, or starts one. It waits until one
// is there, ctx is done, Config.MaxWait is over, or the launch made for it
// fails. Before Run it waits. The error is that of the engine, the cause of ctx,
// ErrNoSandbox or ErrStopped, wrapped.
//
// Close of the returned sandbox does not wait for its removal: that goes on in
// the background, and the sandbox keeps its slot until it is proven. Close
// therefore returns nil; a removal that fails is logged and counted by the pool.
// Who counts something else by sandboxes calls CloseThen in place of Close.
func (p *Pool) Launch(ctx context.Context, l job.Limits) (sandbox.Sandbox, error) {
	began := time.Now()
	box, how, err := p.take(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("take sandbox: %w", err)
	}
	p.metrics.taken.WithLabelValues(how).Inc()
	p.metrics.wait.Observe(time.Since(began).Seconds())
	return box, nil
}

// take gets a sandbox for l, and tells how.
func (p *Pool) take(ctx context.Context, l job.Limits) (sandbox.Sandbox, string, error) {
	if ctx.Err() != nil {
		return nil, "", p.ended(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.MaxWait, ErrNoSandbox)
	defer cancel()
	r := newRequest(l)
	r.adjustable = true
	given, err := p.ask(ctx, r)
	if err != nil || !given.adjust {
		return given.lease(p), given.how, err
	}
	waited := given.unit // the keeper reads it when given is the next one
	r = newRequest(l)
	switch err = waited.box.(Adjuster).Adjust(ctx, l); {
	case err == nil:
		return given.lease(p), takenAdjusted, nil
	case errors.Is(err, errors.ErrUnsupported):
		r.foreign = true
		p.tell(func(k *keeper, _ time.Time) { k.putBack(waited) })
	default:
		p.log.Warn("limits of a waiting sandbox could not be changed", zap.Error(err))
		p.tell(func(k *keeper, _ time.Time) { k.spoil(waited, discardAdjust) })
	}
	if ctx.Err() != nil {
		return nil, "", p.ended(ctx)
	}
	given, err = p.ask(ctx, r)
	return given.lease(p), given.how, err
}

// ask puts r before the keeper and waits for the answer.
func (p *Pool) ask(ctx context.Context, r *request) (grant, error) {
	select {
	case p.inbox <- func(k *keeper, now time.Time) { k.arrive(r, now) }:
	case <-ctx.Done():
		return grant{}, p.ended(ctx)
	case <-p.done:
		return grant{}, ErrStopped
	}
	select {
	case g := <-r.reply:
		return g, g.err
	case <-ctx.Done():
		// What the keeper may have granted meanwhile, it takes back.
		p.tell(func(k *keeper, _ time.Time) { k.abandon(r) })
		return grant{}, p.ended(ctx)
	}
}

// tell has the goroutine of Run execute message; after its end it does nothing.
func (p *Pool) tell(message func(*keeper, time.Time)) {
	select {
	case p.inbox <- message:
	case <-p.done:
	}
}

// ended is the error of a wait that ctx has ended: it matches ctx's error and
// its cause. For MaxWait it is ErrNoSandbox instead. When time ran out it comes with what the engine said last, or
// with sandbox.ErrNoRoom if the engine is well.
func (p *Pool) ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	switch failure := p.failure.Load(); {
	case errors.Is(cause, ErrNoSandbox) && failure != nil:
		return fmt.Errorf("%w within %v: %w", cause, p.cfg.MaxWait, *failure)
	case errors.Is(cause, ErrNoSandbox):
		return fmt.Errorf("%w within %v: %w", cause, p.cfg.MaxWait, sandbox.ErrNoRoom)
	case errors.Is(err, context.DeadlineExceeded) && failure == nil:
		return fmt.Errorf("%w: %w: %w", sandbox.ErrNoRoom, err, cause)
	case errors.Is(cause, err):
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// lease is a sandbox in the hands of a job.
type lease struct {
	pool   *Pool
	unit   *unit
	closed atomic.Bool
}

// Run hands the job to the sandbox.
func (l *lease) Run(ctx context.Context, j job.Job) (sandbox.Outcome, error) {
	if l.closed.Load() {
		// The removal in the background may not have begun.
		return sandbox.Outcome{}, sandbox.ErrClosed
	}
	return l.unit.box.Run(ctx, j)
}

// Close gives the sandbox back to the pool, which removes it in the background.
func (l *lease) Close() error {
	l.CloseThen(nil)
	return nil
}

// CloseThen is Close, and calls then once when the removal has ended: with nil when it is proven, with an
// error that matches sandbox.ErrQuarantined when a Warden has the sandbox in quarantine. Without a Warden that call
// comes when a later Close has proven it. then must not block and must not call the pool. Only the first call of
// Close or CloseThen counts, and after the end of Pool.Run nothing is called any more.
func (l *lease) CloseThen(then func(err error)) {
	if l.closed.CompareAndSwap(false, true) {
		l.pool.tell(func(k *keeper, _ time.Time) { k.returned(l.unit, then) })
	}
}
