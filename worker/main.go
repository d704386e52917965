// Command worker takes jobs from the queue and runs each in a sandbox of its own.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/execra/tracefleet/internal/buildinfo"
	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/queue"
)

func main() {
	queue.QuietRedis()
	signals := make(chan os.Signal, 2) // the first drains, the second hurries
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	err := run(context.Background(), os.Args[1:], os.Getenv, signals, os.Stdout, os.Stderr)
	os.Exit(cli.Report(os.Stderr, name, err))
}

// run carries out one command line. The first signal makes a running worker
// drain, the second makes it hurry; so does the end of ctx. The error carries the exit code.
func run(ctx context.Context, args []string, getenv func(string) string, signals <-chan os.Signal, stdout, stderr io.Writer) error {
	var grammar grammar
	chosen, err := cli.Parse(cli.Command{
		Name: name, Description: description, Version: buildinfo.Get().String(), Getenv: getenv, Stdout: stdout,
		Groups: map[string]string{"maxima": "The largest limits that jobs of the whole fleet may ask for while this worker is in it, if lower than its own:"},
	}, &grammar, args)
	if errors.Is(err, cli.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	return chosen.Run(&session{ctx: ctx, signals: signals, stdout: stdout, stderr: stderr, settings: grammar.settings})
}

// session is what a command works with.
type session struct {
	ctx            context.Context
	signals        <-chan os.Signal
	stdout, stderr io.Writer
	settings
}
