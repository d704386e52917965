package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/doctor"
	"github.com/execra/tracefleet/internal/intake"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/roster"
)

// getCmd prints what became of a job.
type getCmd struct {
	ID   string       `arg:"" name:"id" help:"The id that submit printed."`
	Wait cli.Duration `once:"" default:"0s" placeholder:"TIME" help:"Wait this long for a result that is not there yet."`
	formatFlag
}

// Help explains the command in its --help.
func (*getCmd) Help() string {
	return `The exit code is 0 when there is a result, whatever it says; 1 when the job is not finished, after the wait if one is given (json then prints the job's id and state); 3 when there is no such job.

Examples:

    enqueuer get ID
    enqueuer get ID --wait 30s --format json`
}

// Run carries the command out.
func (c *getCmd) Run(s *session) error {
	if !job.ValidID(c.ID) {
		return s.explain(intake.ErrNotFound, c.ID)
	}
	fleet, err := s.connect(wiring{})
	if err != nil {
		return err
	}
	defer fleet.close()
	result, err := fleet.desk.Result(s.ctx, c.ID)
	if errors.Is(err, intake.ErrNotFinished) && c.Wait > 0 {
		stop := s.progress(s.ctx, c.ID, fleet.desk.Get)
		result, err = fleet.wait(s.ctx, c.ID, time.Duration(c.Wait))
		stop()
	}
	if errors.Is(err, intake.ErrNotFinished) || errors.Is(err, errStillOpen) {
		return c.unfinished(s, fleet)
	}
	if err != nil {
		return s.explain(err, c.ID)
	}
	var input job.Job
	if c.Format == formatText || c.Format == formatHTML {
		// A damaged or expired input only costs the view its source lines.
		if known, err := fleet.ledger.Input(s.ctx, c.ID); err == nil {
			input = known
		}
	}
	return s.print(result, input, c.formatFlag)
}

// unfinished says where a job without a result stands.
func (c *getCmd) unfinished(s *session, fleet *fleet) error {
	entry, err := fleet.desk.Get(s.ctx, c.ID)
	if err != nil {
		return s.explain(err, c.ID)
	}
	if c.Format != formatText && c.Format != formatHTML {
		if err := s.printJSON(map[string]string{"id": c.ID, "state": string(entry.State)}); err != nil {
			return err
		}
	}
	return cli.Failf(cli.CodeFailed, "%s is still %s; wait for its result with --wait 30s", c.ID, entry.State)
}

// cancelCmd cancels a job.
type cancelCmd struct {
	ID string `arg:"" name:"id" help:"The id that submit printed."`
}

// Help explains the command in its --help.
func (*cancelCmd) Help() string {
	return `A queued job never runs; a running one is killed, and keeps the part of its trace that there is. One line says what was done. Canceling a job that has ended changes nothing, and is no error.`
}

// Run carries the command out.
func (c *cancelCmd) Run(s *session) error {
	if !job.ValidID(c.ID) {
		return s.explain(intake.ErrNotFound, c.ID)
	}
	fleet, err := s.connect(wiring{})
	if err != nil {
		return err
	}
	defer fleet.close()
	state, err := fleet.desk.Cancel(s.ctx, c.ID)
	if err != nil {
		return s.explain(err, c.ID)
	}
	words := "had ended already: " + string(state)
	switch state {
	case ledger.StateCanceled:
		words = "canceled"
	case ledger.StateRunning:
		words = "is being stopped"
	}
	return s.printLine("%s %s", c.ID, words)
}

// doctorCmd checks what this command needs.
type doctorCmd struct {
	Format string `once:"" enum:"text,json" default:"text" placeholder:"FORM" help:"text or json."`
}

// Help explains the command in its --help.
func (*doctorCmd) Help() string {
	return `The exit code is 1 when a check failed. Warnings do not fail. What the workers need is checked by: worker doctor`
}

// Run carries the command out.
func (c *doctorCmd) Run(s *session) error {
	client, err := queue.OpenRedis(queue.RedisOptions{URL: s.Redis, PasswordFile: s.RedisPasswordFile})
	if err != nil {
		return cli.Usagef("--redis: %w", err)
	}
	defer func() { _ = client.Close() }() // it was only asked
	ctx, cancel := context.WithTimeout(s.ctx, reachTimeout)
	defer cancel()
	facts, err := ledger.CheckServer(ctx, client)
	rows := append(doctor.Redis(queue.ShownURL(s.Redis), facts, err), doctor.RedisAccess(s.Redis, s.RedisPasswordFile != "")...)
	if workers, lookErr := roster.NewBoard(client).Look(ctx); err == nil && lookErr == nil {
		rows = append(rows, doctor.Workers(workers.Workers))
	}
	write := map[string]func(io.Writer, []doctor.Row) error{"text": doctor.Text, "json": doctor.JSON}[c.Format]
	if err := write(s.out, rows); err != nil {
		return written(err)
	}
	if !doctor.Healthy(rows) {
		return cli.Failf(cli.CodeFailed, "a check failed; see above for what to do")
	}
	return nil
}
