package pool_test

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox/pool"
)

func testLogger(t *testing.T) *zap.Logger { return zaptest.NewLogger(t) }

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		cfg         pool.Config
		warm, slots int
	}{
		{"nothing set", pool.Config{}, 1, 3},
		{"concurrency", pool.Config{Concurrency: 4}, 4, 12},
		{"no stock", pool.Config{Concurrency: 4, Warm: -1}, -1, 8},
		{"more stock", pool.Config{Concurrency: 2, Warm: 8}, 8, 12},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := tc.cfg.WithDefaults()
			if err := got.Validate(); err != nil {
				t.Error(err)
			}
			if got.Warm != tc.warm || got.Slots != tc.slots {
				t.Errorf("got warm %d, slots %d, want %d, %d", got.Warm, got.Slots, tc.warm, tc.slots)
			}
			if got.Class != job.DefaultLimits() {
				t.Errorf("class: got %+v", got.Class)
			}
		})
	}
}

func TestConfigReportsEveryFault(t *testing.T) {
	t.Parallel()
	_, err := pool.New(newEngine(), pool.Config{
		Concurrency: -1, Warm: 9, Slots: 4, MaxLaunching: 5, MaxIdle: -1, MaxWait: -1, LaunchTimeout: -1,
		MinBackoff: time.Minute, MaxBackoff: time.Second, MinRetry: time.Minute, MaxRetry: time.Second, DrainTimeout: -1,
	}, nil, testLogger(t))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, field := range []string{
		"concurrency", "warm", "max_launching", "max_idle", "max_wait", "launch_timeout", "max_backoff",
		"max_retry", "drain_timeout",
	} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%q is not named in: %v", field, err)
		}
	}
	_, err = pool.New(newEngine(), pool.Config{Concurrency: 4, Warm: 1, Slots: 3}, nil, testLogger(t))
	if err == nil || !strings.Contains(err.Error(), "slots 3") {
		t.Errorf("too few slots: got %v", err)
	}
}
