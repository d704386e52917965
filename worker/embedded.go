package main

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// tick is how often the embedded Redis is told that time has passed. Keys
// expire that much late at most.
const tick = 250 * time.Millisecond

// embedded is a Redis inside this process, for trying things out.
type embedded struct{ server *miniredis.Miniredis }

// startEmbedded starts it on address, which must be of the loopback interface:
// it has no password.
func startEmbedded(address string) (*embedded, error) {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(address); err != nil {
		return nil, fmt.Errorf("start the embedded Redis: %w; if another Redis runs there, use it with --redis redis://%s, or choose another port with embedded:PORT", err, address)
	}
	return &embedded{server: server}, nil
}

func (e *embedded) url() string { return "redis://" + e.server.Addr() + "/0" }

// run lets keys expire until ctx ends: miniredis keeps a TTL as a duration,
// which only its user shortens.
func (e *embedded) run(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			e.server.FastForward(now.Sub(last))
			last = now
		}
	}
}

func (e *embedded) close() { e.server.Close() }
