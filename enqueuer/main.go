// Command enqueuer submits programs to the fleet and shows what became of them.
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal must end the command at once, whatever it is doing.
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv})
	stop()
	os.Exit(cli.Report(os.Stderr, name, err))
}

// streams are the surroundings of one run of the command.
type streams struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
}

// run carries out one command line. The error carries the exit code.
func run(ctx context.Context, args []string, std streams) error {
	var grammar grammar
	chosen, err := cli.Parse(cli.Command{
		Name: name, Description: description, Version: buildinfo.Get().String(), Getenv: std.getenv, Stdout: std.out,
		Groups: map[string]string{
			"limits":    "Limits of the run, with what they are when left out:",
			"admission": "Above these a job is refused, with the time to try again:",
			"webhooks":  "Webhooks, which are off without a host:",
		},
	}, &grammar, args)
	if errors.Is(err, cli.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	return chosen.Run(&session{ctx: ctx, streams: std, common: grammar.common})
}
