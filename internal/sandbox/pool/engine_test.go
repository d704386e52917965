package pool_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/sandbox/pool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine is a simulated container engine. It keeps count of everything, so
// that a test can say what must hold at its end.
type engine struct {
	// The script; changed under mu by set.
	launchTime func(inFlight int) time.Duration
	launchErr  func(n int) error // n counts launches from 1
	closeTime  time.Duration
	closeErr   func(n int) error // n counts calls of Close on the same sandbox
	adjust     func(job.Limits) error

	mu       sync.Mutex
	inFlight int
	launches int
	live     int // being launched, or started and not proven gone
	maxLive  int
	faults   []string
	boxes    []*box
	starts   []time.Time
}

func newEngine() *engine {
	return &engine{
		launchTime: func(int) time.Duration { return 100 * time.Millisecond },
		launchErr:  func(int) error { return nil },
		closeTime:  50 * time.Millisecond,
		closeErr:   func(int) error { return nil },
		adjust:     func(job.Limits) error { return errors.ErrUnsupported },
	}
}

// set changes the script while the engine is in use.
func (e *engine) set(change func(*engine)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e)
}

func (e *engine) fault(format string, args ...any) {
	e.faults = append(e.faults, fmt.Sprintf(format, args...))
}

func (e *engine) Launch(ctx context.Context, l job.Limits) (sandbox.Sandbox, error) {
	e.mu.Lock()
	e.launches++
	e.starts = append(e.starts, time.Now())
	e.inFlight++
	e.live++
	e.maxLive = max(e.maxLive, e.live)
	took, err := e.launchTime(e.inFlight), e.launchErr(e.launches)
	e.mu.Unlock()

	select {
	case <-time.After(took):
	case <-ctx.Done():
		err = context.Cause(ctx)
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	e.inFlight--
	if err != nil {
		e.live--
		return nil, err
	}
	b := &box{engine: e, limits: l, ready: time.Now(), done: make(chan struct{}), number: len(e.boxes)}
	e.boxes = append(e.boxes, b)
	return b, nil
}

// box is a sandbox of the simulated engine. A job's wall limit is how long it runs.
type box struct {
	engine *engine
	number int
	limits job.Limits
	ready  time.Time
	done   chan struct{} // closed when it has died

	// Under engine.mu.
	died   bool
	runs   int
	closes int
	gone   bool
}

func (b *box) Run(ctx context.Context, j job.Job) (sandbox.Outcome, error) {
	b.engine.mu.Lock()
	b.runs++
	if b.runs > 1 {
		b.engine.fault("sandbox %d was given %d jobs", b.number, b.runs)
	}
	if err := sandbox.Fits(b.limits, j.Limits); err != nil {
		b.engine.fault("sandbox %d: %v", b.number, err)
	}
	b.engine.mu.Unlock()
	select {
	case <-b.done:
		return sandbox.Outcome{}, sandbox.ErrClosed
	case <-ctx.Done():
		return sandbox.Outcome{Interrupted: true}, nil
	case <-time.After(j.Limits.Wall()):
		return sandbox.Outcome{}, nil
	}
}

func (b *box) Close() error {
	b.kill()
	b.engine.mu.Lock()
	b.closes++
	took, err := b.engine.closeTime, b.engine.closeErr(b.closes)
	b.engine.mu.Unlock()
	<-time.After(took)
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	if err != nil {
		return err
	}
	if b.gone {
		b.engine.fault("sandbox %d was closed again when it was gone", b.number)
	}
	b.gone = true
	b.engine.live--
	return nil
}

func (b *box) Done() <-chan struct{} { return b.done }

func (b *box) Adjust(_ context.Context, l job.Limits) error {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	if err := b.engine.adjust(l); err != nil {
		return err
	}
	b.limits = l
	return nil
}

// kill ends the sandbox as a crash would.
func (b *box) kill() {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	if !b.died {
		b.died = true
		close(b.done)
	}
}

// fixture is a pool over a simulated engine.
type fixture struct {
	*pool.Pool
	t        testing.TB
	engine   *engine
	registry *prometheus.Registry
	stop     func() error
}

// setup runs a pool over e until the end of the test, where nothing may be left
// of it. stop ends it before and returns what Run returned.
func setup(t *testing.T, e *engine, cfg pool.Config) *fixture {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	p, err := pool.New(e, cfg, pool.NewMetrics(registry), zaptest.NewLogger(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- p.Run(ctx) }()
	f := &fixture{Pool: p, t: t, engine: e, registry: registry}
	f.stop = sync.OnceValue(func() error {
		cancel()
		return <-result
	})
	t.Cleanup(func() {
		if err := f.stop(); err != nil {
			t.Errorf("run: %v", err)
		}
		f.engine.mu.Lock()
		defer f.engine.mu.Unlock()
		if f.engine.live != 0 {
			t.Errorf("%d sandboxes left after the drain", f.engine.live)
		}
		for _, fault := range f.engine.faults {
			t.Error(fault)
		}
	})
	return f
}

// take launches and must succeed. It returns how long that took as well.
func (f *fixture) take(l job.Limits) (sandbox.Sandbox, time.Duration) {
	f.t.Helper()
	began := time.Now()
	box, err := f.Launch(f.t.Context(), l)
	if err != nil {
		f.t.Fatalf("launch: %v", err)
	}
	return box, time.Since(began)
}

// await lets d pass and everything settle that it brings about.
func await(d time.Duration) {
	<-time.After(d) // in a synctest bubble: no real time
	synctest.Wait()
}

// wantSandboxes compares the number of sandboxes by state.
func (f *fixture) wantSandboxes(state string, want int) {
	f.t.Helper()
	if got := f.metric("tracefleet_pool_sandboxes", state); got != float64(want) {
		f.t.Errorf("sandboxes %s: got %v, want %d", state, got, want)
	}
}

func (f *fixture) wantTaken(how string, want int) {
	f.t.Helper()
	if got := f.metric("tracefleet_pool_taken_total", how); got != float64(want) {
		f.t.Errorf("taken %s: got %v, want %d", how, got, want)
	}
}

func (f *fixture) wantDiscarded(reason string, want int) {
	f.t.Helper()
	if got := f.metric("tracefleet_pool_discarded_total", reason); got != float64(want) {
		f.t.Errorf("discarded %s: got %v, want %d", reason, got, want)
	}
}

// metric reads a gauge or a counter by its one label; "" for none.
func (f *fixture) metric(name, label string) float64 {
	f.t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	f.t.Fatalf("no metric %s %s", name, label)
	return 0
}

func (f *fixture) launches() int {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	return f.engine.launches
}

// withMemory returns the default limits with other memory.
func withMemory(bytes int64) job.Limits {
	l := job.DefaultLimits()
	l.MemoryBytes = bytes
	return l
}

// jobWith returns a job that runs for d under l.
func jobWith(l job.Limits, d time.Duration) job.Job {
	l.WallMS = d.Milliseconds()
	return job.Job{Limits: l}
}
