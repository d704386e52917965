package pool_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/sandbox/fake"
	"github.com/execra/tracefleet/internal/sandbox/pool"
	"github.com/execra/tracefleet/internal/sandbox/sandboxtest"
)

// probed is a pool as the conformance suite wants it: Remaining is asked when
// all is done, and then stops the pool, so that nothing may be left below it.
type probed struct {
	*pool.Pool
	below sandboxtest.Prober
	stop  func() error
}

func (p *probed) Remaining(ctx context.Context) (int, error) {
	err := p.stop()
	n, probeErr := p.below.Remaining(ctx)
	return n, errors.Join(err, probeErr)
}

// conform puts a pool over l under the suite.
func conform(t *testing.T, l sandbox.Launcher, cfg pool.Config) {
	t.Helper()
	below, ok := l.(sandboxtest.Prober)
	if !ok {
		t.Fatalf("%T does not implement sandboxtest.Prober", l)
	}
	sandboxtest.Run(t, func(t *testing.T) sandbox.Launcher {
		p, err := pool.New(l, cfg, nil, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		stop := sync.OnceValue(func() error {
			cancel()
			return <-ended
		})
		t.Cleanup(func() { _ = stop() }) // Remaining reports
		return &probed{Pool: p, below: below, stop: stop}
	})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		cfg  pool.Config
	}{
		{"warm", pool.Config{Concurrency: 8}},
		{"cold", pool.Config{Concurrency: 8, Warm: -1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			conform(t, fake.New(), tc.cfg)
		})
	}
}
