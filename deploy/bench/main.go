// Command bench measures a fleet beside what it has to compete with, in one run
// on one machine, and prints a table and, as its last line, one JSON object:
//
//	(a) a cold python3 in the sandbox image's root, without any container
//	(b) docker run --rm with the sandbox's hardening
//	(c) a bare loop over the engine's API with the sandbox's HostConfig
//	(d) a traced job through an idle fleet, from submission to result
//	(e) the same under gVisor
//	(f) jobs per second with the queue full, beside (c) with as many at once
//	(g) queue, ledger and result store without sandboxes, beside bare asynq
//	(h) sizes of results
//	(i) memory and goroutines of a worker over many jobs
//	(j) memory and processor time of a worker and its waiting sandboxes at rest
//
// What is compared is measured in turns, so that both sides see the same machine.
// docs/benchmarks.md says how to read it. It needs root, for the change of root
// in (a), a Docker engine with the sandbox image, redis-server, and bin/worker and bin/enqueuer.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// run carries out one command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	quick := flags.Bool("quick", false, "fewer repetitions: about 50 s in all")
	only := flags.String("only", "", "parts to measure, such as idle,full,queue,sizes,memory; all when left out")
	image := flags.String("image", "tracefleet/sandbox:latest", "the sandbox image")
	bin := flags.String("bin", "bin", "folder of worker and enqueuer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	plan := fullPlan()
	if *quick {
		plan = quickPlan()
	}
	wanted := func(part string) bool {
		return *only == "" || strings.Contains(","+*only+",", ","+part+",")
	}
	b, err := open(ctx, settings{plan: plan, image: *image, bin: *bin}, stderr)
	defer func() { err = errors.Join(err, b.close()) }()
	if err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		do   func(*bench, context.Context) error
	}{
		{"queue", (*bench).queue}, {"idle", (*bench).idle}, {"sizes", (*bench).sizes},
		{"full", (*bench).full}, {"memory", (*bench).memory},
	} {
		if !wanted(part.name) {
			continue
		}
		start := time.Now()
		if err := part.do(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		b.say("%s: %.1f s", part.name, time.Since(start).Seconds())
	}
	return b.report.write(stdout)
}
