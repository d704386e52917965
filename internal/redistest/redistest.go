// Package redistest runs real Redis servers for tests, and breaks them and the way to them.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options says how a server is set up. The zero value is a server that keeps nothing on disk.
type Options struct {
	// MaxMemoryBytes is the memory limit, without eviction; 0 is none.
	MaxMemoryBytes int64
	// AppendOnly keeps what was written over a Restart.
	AppendOnly bool
	// Args are further arguments of redis-server.
	Args []string
}

// startTimeout bounds the start and the end of a server on a busy machine.
const startTimeout = time.Minute

// Server is a redis-server of its own on a free port of 127.0.0.1, with a folder of its own. It ends with
// the test. Its methods may be called from the goroutine of the test only.
type Server struct {
	tb   testing.TB
	opts Options
	dir  string
	port int
	// claim keeps the port for this server, also while it is down.
	claim net.Listener
	cmd   *exec.Cmd
	done  chan struct{} // closed when cmd has ended
}

// Start starts a server. The test fails when redis-server is not installed.
func Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	s := &Server{tb: tb, opts: o, dir: tb.TempDir()}
	tb.Cleanup(func() {
		if s.cmd != nil {
			s.Kill()
		}
		if s.claim != nil {
			_ = s.claim.Close()
		}
	})
	for range startTries {
		// A process that is no test may take the port before the server does.
		s.port, s.claim = claimPort(tb)
		if s.start() {
			return s
		}
		_ = s.claim.Close()
	}
	s.failStart()
	return nil
}

// startTries is how many ports are tried.
const startTries = 5

// claimPort finds a port below those that the kernel gives to outgoing connections, so that it stays free while a
// server is down, and claims it: no other test gets it until claim is closed or this process has ended.
func claimPort(tb testing.TB) (port int, claim net.Listener) {
	tb.Helper()
	for range 1000 {
		port := 20_000 + rand.IntN(12_000)
		claim, err := claimOf(port)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			_ = claim.Close()
			continue
		}
		_ = l.Close()
		return port, claim
	}
	tb.Fatal("no port is free")
	return 0, nil
}

// FreePort finds a port of 127.0.0.1 that no other test gets until this one has ended.
func FreePort(tb testing.TB) int {
	tb.Helper()
	port, claim := claimPort(tb)
	tb.Cleanup(func() { _ = claim.Close() })
	return port
}

// claimOf claims a port among all processes of this machine, as the packages' tests run in many. What it holds is a
// socket without a file, which goes with its process.
func claimOf(port int) (net.Listener, error) {
	return net.Listen("unix", "@tracefleet-redistest-"+strconv.Itoa(port))
}

// start tells false when the server ended at once.
func (s *Server) start() bool {
	s.tb.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		s.tb.Fatalf("redis-server is not installed: run make setup")
	}
	args := []string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--daemonize", "no",
		"--logfile", filepath.Join(s.dir, "redis.log"), "--maxmemory-policy", "noeviction", "--appendonly", yesNo(s.opts.AppendOnly),
		"--appendfsync", "always",
	}
	if s.opts.MaxMemoryBytes > 0 {
		args = append(args, "--maxmemory", strconv.FormatInt(s.opts.MaxMemoryBytes, 10))
	}
	cmd := exec.Command(binary, append(args, s.opts.Args...)...)
	// A test binary that is killed takes its servers with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.tb.Fatalf("start redis-server: %v", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // Killed is how it ends.
	}()
	s.cmd, s.done = cmd, done
	if s.awaitReady() {
		return true
	}
	s.cmd = nil
	return false
}

func (s *Server) failStart() {
	s.tb.Helper()
	log, _ := os.ReadFile(filepath.Join(s.dir, "redis.log"))
	s.tb.Fatalf("redis-server ended at its start: %s", log)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (s *Server) awaitReady() bool {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), DisableIdentity: true, MaxRetries: -1})
	defer func() { _ = client.Close() }()
	for {
		// What answers may be the server of another test that took the port.
		info, err := client.Info(ctx, "server").Result()
		if err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r", s.cmd.Process.Pid)) {
			return true
		}
		select {
		case <-s.done:
			return false
		case <-ctx.Done():
			s.tb.Fatalf("redis-server does not answer after %s: %v", startTimeout, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Addr is the address, host:port. It stays the same over Restart.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is the address as a redis:// URL.
func (s *Server) URL() string { return fmt.Sprintf("redis://%s/0", s.Addr()) }

// Client returns a client, which is closed at the end of the test.
func (s *Server) Client() redis.UniversalClient { return Client(s.tb, s.Addr()) }

// StartCluster starts a Redis Cluster of one node, which refuses commands that touch more than one slot.
func StartCluster(tb testing.TB) *Server {
	tb.Helper()
	s := Start(tb, Options{Args: []string{"--cluster-enabled", "yes"}})
	client := s.Client()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	const lastSlot = 16383
	if err := client.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", 0, lastSlot).Err(); err != nil {
		tb.Fatalf("make a cluster: %v", err)
	}
	for !strings.Contains(client.ClusterInfo(ctx).Val(), "cluster_state:ok") {
		select {
		case <-ctx.Done():
			tb.Fatalf("the cluster is not ready after %s", startTimeout)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return s
}

// Stop ends the server in good order.
func (s *Server) Stop() {
	s.tb.Helper()
	s.end(syscall.SIGTERM)
}

// Kill ends the server at once.
func (s *Server) Kill() {
	s.tb.Helper()
	s.end(syscall.SIGKILL)
}

func (s *Server) end(sig syscall.Signal) {
	s.tb.Helper()
	if s.cmd == nil {
		s.tb.Fatal("the Redis server is not running")
	}
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.tb.Fatalf("end redis-server: %v", err)
	}
	select {
	case <-s.done:
	case <-time.After(startTimeout):
		_ = s.cmd.Process.Kill()
		s.tb.Fatalf("redis-server did not end within %s of %s", startTimeout, sig)
	}
	s.cmd = nil
}

// Restart starts a server that was ended, on the same port and with the same folder.
func (s *Server) Restart() {
	s.tb.Helper()
	if s.cmd != nil {
		s.tb.Fatal("the Redis server is running")
	}
	if !s.start() {
		s.failStart()
	}
}

// Client returns a client of the server at addr, which is closed at the end of the test. Its timeouts are for a machine
// that is too busy to answer soon: what breaks in a test breaks a connection, which is noticed at once.
func Client(tb testing.TB, addr string) redis.UniversalClient {
	tb.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: addr, DisableIdentity: true, DialTimeout: clientTimeout, ReadTimeout: clientTimeout, WriteTimeout: clientTimeout, PoolTimeout: 4 * clientTimeout,
	})
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// clientTimeout bounds each step of a command. A thousand callers may wait for a connection.
const clientTimeout = 15 * time.Second
