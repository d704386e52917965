// Command socketproxy stands between the workers of a fleet and the Docker
// engine's socket. Whoever can talk to the engine is root on its host; whoever can
// talk to this proxy can start, feed, and remove sandboxes of the fleet and do
// nothing else. It is for workers that may be taken over.
//
// Nothing of a request is passed on but what was checked: paths, parameters and
// bodies that go to the engine are built here.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/execra/tracefleet/internal/ops"
	"github.com/execra/tracefleet/internal/sandbox/docker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stderr); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "socketproxy:", err)
		stop()
		os.Exit(1)
	}
}

// settings are the flags; each has its default from the environment.
type settings struct {
	listen, engine, mode string
	check                bool
	config               docker.Config
}

func parse(args []string, getenv func(string) string, stderr io.Writer) (s settings, err error) {
	or := func(name, otherwise string) string {
		if value := getenv("TRACEFLEET_" + name); value != "" {
			return value
		}
		return otherwise
	}
	flags := flag.NewFlagSet("socketproxy", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.listen, "listen", or("PROXY_LISTEN", "/run/tracefleet/engine.sock"), "unix socket to listen on")
	flags.StringVar(&s.mode, "mode", or("PROXY_MODE", "0660"), "mode of the socket")
	flags.StringVar(&s.engine, "engine", or("PROXY_ENGINE", "/var/run/docker.sock"), "the engine's unix socket")
	flags.StringVar(&s.config.Image, "image", or("IMAGE", docker.DefaultImage), "the only image that sandboxes may have")
	flags.StringVar(&s.config.Runtime, "runtime", or("RUNTIME", ""), "the only OCI runtime that they may have; the engine's default when empty")
	flags.StringVar(&s.config.Fleet, "fleet", or("FLEET", "tracefleet"), "the only fleet that is served")
	flags.BoolVar(&s.check, "check", false, "ask the proxy that listens there whether it and the engine answer, and leave")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	s.config.Host, s.config.Worker = "unix://"+s.engine, "socketproxy"
	return s, nil
}

func run(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer) (err error) {
	s, err := parse(args, getenv, stderr)
	if err != nil {
		return err
	}
	if s.check {
		return check(ctx, s.listen)
	}
	log, err := ops.NewLogger(ops.LogConfig{Format: "json", Level: "info", Output: zapcore.AddSync(stderr)})
	if err != nil {
		return err
	}
	engine, err := docker.Open(ctx, s.config, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	listener, err := listen(s)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: newProxy(engine, s, log), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	log.Info("socketproxy is ready", zap.String("listen", s.listen), zap.String("fleet", s.config.Fleet), zap.String("image", engine.Facts().ImageID))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// The streams of running jobs have no end of their own: a worker drains before this ends.
	err = server.Close()
	<-served
	return err
}

// check asks a proxy for a ping of the engine.
func check(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/_ping", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s", resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// listen opens the socket, in place of one that an earlier life left.
func listen(s settings) (net.Listener, error) {
	mode, err := strconv.ParseUint(s.mode, 8, 9)
	if err != nil {
		return nil, fmt.Errorf("mode %q: want octal digits", s.mode)
	}
	if info, err := os.Lstat(s.listen); err == nil && info.Mode()&os.ModeSocket != 0 {
		if err := os.Remove(s.listen); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("unix", s.listen)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(s.listen, os.FileMode(mode)); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}
