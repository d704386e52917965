package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// settings are what a bench is told.
type settings struct {
	plan  plan
	image string
	bin   string
}

// bench is one run. Its parts are called one after the other.
type bench struct {
	settings
	progress io.Writer
	dir      string
	servers  []*server
	fleets   []*fleet
	bare     *bare
	// home is the idle fleet, on an empty Redis.
	home *fleet
	// crowded is a Redis with many finished jobs; nil until they are there.
	crowded *server
	report  report
}

// open starts what every part needs. What it returns is to be closed also when there is an error.
func open(ctx context.Context, s settings, progress io.Writer) (*bench, error) {
	b := &bench{settings: s, progress: progress}
	b.report = newReport(s.plan.Name)
	var err error
	if b.dir, err = os.MkdirTemp("", "tracefleet-bench-"); err != nil {
		return b, err
	}
	if os.Geteuid() != 0 {
		return b, errors.New("it must run as root, to change into the image's root")
	}
	redis, err := b.startRedis(ctx)
	if err != nil {
		return b, err
	}
	if b.home, err = b.startFleet(ctx, redis, fleetOptions{name: "idle", concurrency: idleSlots}); err != nil {
		return b, err
	}
	b.bare, err = openBare(ctx, b.dir, s.image, b.home)
	return b, err
}

func (b *bench) startRedis(ctx context.Context) (*server, error) {
	s, err := startRedis(ctx, b.dir)
	if s != nil {
		b.servers = append(b.servers, s)
	}
	return s, err
}

// close ends everything that was started and removes what it left.
func (b *bench) close() error {
	var errs []error
	for _, f := range b.fleets {
		errs = append(errs, f.stop())
	}
	if b.bare != nil {
		errs = append(errs, b.bare.close())
	}
	for _, s := range b.servers {
		s.close()
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.progress, "bench: "+format+"\n", args...) // for whoever watches
}

// machine describes where this is, with its load at the start: a busy machine measures nothing.
func machine() map[string]any {
	load, _ := os.ReadFile("/proc/loadavg") // empty where there is none
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	first, _, _ := strings.Cut(string(load), " ")
	return map[string]any{"processors": runtime.NumCPU(), "kernel": strings.TrimSpace(string(kernel)), "load": first}
}
