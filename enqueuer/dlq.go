package main

import (
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/oneline"
)

// dlqCmd looks after the dead letters.
type dlqCmd struct {
	List    dlqListCmd    `cmd:"" help:"List dead letters, the newest first."`
	Show    dlqShowCmd    `cmd:"" help:"Show one dead letter with all its attempts."`
	Requeue dlqRequeueCmd `cmd:"" help:"Run dead letters again."`
	Purge   dlqPurgeCmd   `cmd:"" help:"Remove dead letters for good."`
}

// Help explains the command in its --help.
func (*dlqCmd) Help() string {
	return `A dead letter is a job that the fleet could not run: the engine failed on every attempt (engine, sandbox), Redis did (store), it took two workers with it (poison), its task was archived by an operator (archived), or the fleet has a bug (internal, panic). A program that fails is none: that is a result.`
}

// dlqFilter chooses dead letters.
type dlqFilter struct {
	Class  string  `once:"" placeholder:"C" help:"Only those of this class, such as engine or poison."`
	Tenant string  `once:"" placeholder:"T" help:"Only those of this tenant."`
	Queue  string  `once:"" enum:",interactive,default,batch" default:"" placeholder:"Q" help:"Only those of this queue: interactive, default or batch."`
	Since  *moment `once:"" placeholder:"WHEN" help:"Only those buried since: a time ago such as 2h, or a date such as 2026-11-30T08:00:00Z."`
	Until  *moment `once:"" placeholder:"WHEN" help:"Only those buried until then."`
}

func (f dlqFilter) empty() bool { return f == dlqFilter{} }

func (f dlqFilter) filter(limit int) ledger.DeadLetterFilter {
	return ledger.DeadLetterFilter{
		Class: f.Class, Tenant: f.Tenant, Queue: job.Queue(f.Queue), Since: f.Since.at(), Until: f.Until.at(), Limit: limit,
	}
}

// moment is a point in time, given as a date or as a time ago.
type moment struct {
	date time.Time
	ago  time.Duration
}

// UnmarshalText reads a moment.
func (m *moment) UnmarshalText(text []byte) (err error) {
	if m.ago, err = time.ParseDuration(string(text)); err == nil && m.ago >= 0 {
		return nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", time.DateOnly} {
		if m.date, err = time.Parse(layout, string(text)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("must be a time ago such as 90m or a date such as 2026-11-30T08:00:00Z, got %q", text)
}

// at is zero for no moment.
func (m *moment) at() time.Time {
	if m == nil || m.date.IsZero() && m.ago == 0 {
		return time.Time{}
	}
	if !m.date.IsZero() {
		return m.date
	}
	return time.Now().Add(-m.ago)
}

// dlqListCmd lists dead letters.
type dlqListCmd struct {
	dlqFilter
	Limit int `once:"" default:"100" placeholder:"N" help:"List at most so many, 0 for all (${default})."`
	listFormat
}

// Help explains the command in its --help.
func (*dlqListCmd) Help() string {
	return `Examples:

    enqueuer dlq list --class engine --since 2h
    enqueuer dlq list --tenant acme --limit 0 --format json | jq -r .id`
}

// Run carries the command out.
func (c *dlqListCmd) Run(s *session) error {
	fleet, err := s.connect(wiring{})
	if err != nil {
		return err
	}
	defer fleet.close()
	table := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	n := 0
	for e, err := range fleet.ledger.EachDeadLetter(s.ctx, c.filter(c.Limit)) {
		if err != nil {
			return s.explain(err, "")
		}
		n++
		if c.Format == formatJSON {
			if err := s.printJSON(deadLetterOf(e)); err != nil {
				return err
			}
			continue
		}
		if n == 1 {
			_, _ = fmt.Fprintln(table, "BURIED\tCLASS\tQUEUE\tTENANT\tID\tREASON") // errors come back from Flush
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", e.FinishedAt.Local().Format(time.DateTime), e.Class, e.Queue,
			dash(e.Tenant), e.ID, oneline.Of(e.Message, 60))
	}
	if err := table.Flush(); err != nil {
		return written(err)
	}
	switch {
	case s.Quiet:
	case n == 0 && c.empty():
		s.notice("there are no dead letters\n")
	case n == 0:
		s.notice("no dead letter is such a one\n")
	case n == c.Limit:
		s.notice("the newest %d; more with --limit\n", n)
	}
	return nil
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// deadLetter is a dead letter as a document.
type deadLetter struct {
	ID       string        `json:"id"`
	Class    string        `json:"class"`
	Message  string        `json:"message"`
	Queue    job.Queue     `json:"queue"`
	Tenant   string        `json:"tenant"`
	Name     string        `json:"name"`
	Attempts int           `json:"attempts"`
	Lost     int           `json:"lost"`
	Requeues int           `json:"requeues"`
	Worker   string        `json:"worker"`
	Created  time.Time     `json:"created_at"`
	Buried   time.Time     `json:"buried_at"`
	History  []deadAttempt `json:"history,omitempty"`
}

// deadAttempt is one attempt as a document.
type deadAttempt struct {
	Worker string    `json:"worker"`
	Start  time.Time `json:"started_at"`
	End    time.Time `json:"ended_at"`
	Class  string    `json:"class"`
}

func deadLetterOf(e ledger.Entry) deadLetter {
	return deadLetter{
		ID: e.ID, Class: e.Class, Message: e.Message, Queue: e.Queue, Tenant: e.Tenant, Name: e.Name, Attempts: e.Attempts, Lost: e.Lost,
		Requeues: e.Requeues, Worker: e.Worker, Created: e.CreatedAt, Buried: e.FinishedAt,
	}
}

// dlqShowCmd shows one dead letter.
type dlqShowCmd struct {
	ID string `arg:"" name:"id" help:"The id of the job."`
	listFormat
}

// Run carries the command out.
func (c *dlqShowCmd) Run(s *session) error {
	fleet, err := s.connect(wiring{})
	if err != nil {
		return err
	}
	defer fleet.close()
	e, attempts, err := fleet.ledger.DeadLetter(s.ctx, c.ID)
	if err != nil {
		return s.explainDead(err, c.ID)
	}
	d := deadLetterOf(e)
	for _, a := range attempts {
		d.History = append(d.History, deadAttempt{Worker: a.Worker, Start: a.Start, End: a.End, Class: a.Class})
	}
	if c.Format == formatJSON {
		return s.printJSON(d)
	}
	return d.print(s)
}

func (d deadLetter) print(s *session) error {
	table := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(table, name+"\t"+format+"\n", args...) // errors come back from Flush
	}
	row("id", "%s", d.ID)
	row("name", "%s", dash(oneline.Of(d.Name, 80)))
	row("class", "%s", d.Class)
	row("reason", "%s", oneline.Of(d.Message, 500))
	row("queue", "%s", d.Queue)
	row("tenant", "%s", dash(d.Tenant))
	row("submitted", "%s", d.Created.Local().Format(time.DateTime))
	row("buried", "%s", d.Buried.Local().Format(time.DateTime))
	row("attempts", "%d, %d of them lost with their worker; requeued %d times before", d.Attempts, d.Lost, d.Requeues)
	for _, a := range d.History {
		took := a.End.Sub(a.Start).Round(time.Millisecond)
		row("", "%s  %-10s  after %s on %s", a.Start.Local().Format(time.DateTime), a.Class, took, a.Worker)
	}
	return written(table.Flush())
}

func (s *session) explainDead(err error, id string) error {
	if errors.Is(err, ledger.ErrNotDead) {
		return cli.Failf(cli.CodeNotFound, "%s is not in the dead letters; see: enqueuer get %s", id, id)
	}
	return s.explain(err, id)
}
