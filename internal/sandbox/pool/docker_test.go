package pool_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/sandbox/docker"
	"github.com/execra/tracefleet/internal/sandbox/pool"
)

// openDocker connects to the engine of this machine, under a fleet of its own.
func openDocker(tb testing.TB) *docker.Engine {
	tb.Helper()
	ctx := context.Background()
	e, err := docker.Open(ctx, docker.Config{
		Fleet: fmt.Sprintf("pool-%d-%d", os.Getpid(), time.Now().UnixNano()), Worker: "test",
	}, zap.NewNop())
	if err != nil {
		tb.Fatalf("open the engine, run `make setup` first: %v", err)
	}
	tb.Cleanup(func() {
		if n, err := e.Remaining(ctx); err != nil || n != 0 {
			tb.Errorf("%d containers left, error %v", n, err)
		}
		if err := e.Close(); err != nil {
			tb.Errorf("close the engine: %v", err)
		}
	})
	return e
}

func TestConformanceOverDocker(t *testing.T) {
	t.Parallel()
	conform(t, openDocker(t), pool.Config{Concurrency: 8, Warm: 4})
}
