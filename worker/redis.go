package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
)

// reachTimeout bounds the first questions to Redis.
const reachTimeout = 10 * time.Second

// redisServer is the Redis that this worker uses, which may be inside it.
type redisServer struct {
	client redis.UniversalClient
	// address is for people: it has no password.
	address  string
	embedded *embedded // nil for a real one
}

// openRedis starts the embedded Redis, if it is wanted, and makes a client.
func (s *session) openRedis(log *zap.Logger) (*redisServer, error) {
	server := &redisServer{}
	target := s.Redis
	address, wanted, err := embeddedAddress(s.Redis)
	if err != nil {
		return nil, err
	}
	if wanted {
		if server.embedded, err = startEmbedded(address); err != nil {
			return nil, err
		}
		target = server.embedded.url()
		log.Warn("EMBEDDED REDIS: nothing persists; every job and result is lost when this worker stops. It has no password and listens on loopback only",
			zap.String("redis", target))
	}
	if server.client, err = queue.OpenRedis(queue.RedisOptions{URL: target, PasswordFile: s.passwordFile(wanted)}); err != nil {
		server.close()
		return nil, cli.Usagef("--redis: %w", err)
	}
	server.address = queue.ShownURL(target)
	return server, nil
}

// passwordFile is the file with the password; the embedded Redis has none.
func (s *session) passwordFile(embedded bool) string {
	if embedded {
		return ""
	}
	return s.RedisPasswordFile
}

// embeddedAddress tells whether the embedded Redis is wanted, and where it shall listen.
func embeddedAddress(redis string) (address string, wanted bool, err error) {
	rest, wanted := strings.CutPrefix(redis, "embedded")
	if !wanted {
		return "", false, nil
	}
	if rest == "" {
		return "127.0.0.1:6379", true, nil
	}
	port, err := strconv.ParseUint(strings.TrimPrefix(rest, ":"), 10, 16)
	if err != nil || rest[0] != ':' {
		return "", false, cli.Usagef("--redis: must be a URL, embedded, or embedded:PORT, got %q", redis)
	}
	return fmt.Sprintf("127.0.0.1:%d", port), true, nil
}

// check refuses a Redis that the fleet cannot rely on.
func (r *redisServer) check(ctx context.Context, log *zap.Logger) error {
	ctx, cancel := context.WithTimeoutCause(ctx, reachTimeout, fmt.Errorf("no answer within %s", reachTimeout))
	defer cancel()
	facts, err := ledger.CheckServer(ctx, r.client)
	switch {
	case err != nil && facts.Version != "":
		return cli.Failf(cli.CodeFailed, "cannot work with the Redis at %s: %w", r.address, err) // it says what to change
	case err != nil:
		return r.explain(err)
	}
	if r.embedded != nil {
		return nil // it was warned of when it was started
	}
	for _, warning := range facts.Warnings {
		log.Warn(warning)
	}
	return nil
}

// explain says what to do about an error of Redis. One that says so itself stays as it is.
func (r *redisServer) explain(err error) error {
	var said *cli.Error
	if errors.As(err, &said) {
		return err
	}
	return cli.Failf(cli.CodeFailed, "cannot work with the Redis at %s: %s; %s", r.address, ledger.Reason(err), ledger.Advice(err))
}

// run keeps the embedded Redis going, if there is one.
func (r *redisServer) run(ctx context.Context) error {
	if r.embedded == nil {
		return nil
	}
	return r.embedded.run(ctx)
}

// close is safe after a failed start. Nothing is in flight any more, so its errors change nothing.
func (r *redisServer) close() {
	if r.client != nil {
		_ = r.client.Close()
	}
	if r.embedded != nil {
		r.embedded.close()
	}
}

// openLedger opens the ledger, with the keys that encrypt what stands in Redis if there is a file of them.
func (s *session) openLedger(p parts) (*ledger.Ledger, error) {
	config := ledger.Config{Metrics: ledger.NewMetrics(p.metrics), Log: p.log}
	if s.KeyFile != "" {
		var err error
		if config.Keys, err = ledger.ReadKeys(s.KeyFile); err != nil {
			return nil, cli.Usagef("--key-file: %w", err)
		}
	}
	return ledger.New(p.redis.client, config)
}
