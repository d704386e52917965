package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/queue"
)

// server is a redis-server of our own.
type server struct {
	cmd    *exec.Cmd
	addr   string
	client redis.UniversalClient
}

func (s *server) url() string { return "redis://" + s.addr + "/0" }

// startRedis starts a server that keeps nothing on disk and waits for it.
func startRedis(ctx context.Context, dir string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	s := &server{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	s.cmd = exec.Command("redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "",
		"--appendonly", "no", "--maxmemory-policy", "noeviction", "--daemonize", "no", "--loglevel", "warning")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start redis-server (run make setup): %w", err)
	}
	if s.client, err = queue.OpenRedis(queue.RedisOptions{URL: s.url()}); err != nil {
		return s, fmt.Errorf("start redis-server: %w", err)
	}
	return s, await(ctx, "redis-server", func() error { return s.client.Ping(ctx).Err() })
}

func (s *server) close() {
	if s.client != nil {
		_ = s.client.Close() // nothing is in flight
	}
	_ = s.cmd.Process.Kill() // what it holds is of no use to anybody
	_ = s.cmd.Wait()
}

// freePort finds a port that is free now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }() // nobody has connected
	return l.Addr().(*net.TCPAddr).Port, nil
}

// patience bounds every wait for something to come up or to come to rest.
const patience = 60 * time.Second

// await asks check until it has no error.
func await(ctx context.Context, what string, check func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}
