package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/deadletter"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/oneline"
	"github.com/execra/tracefleet/internal/queue"
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

// listFormat says how batches and dead letters are printed. The variable for --format is meant for results, which have
// other forms.
type listFormat struct {
	Format string `once:"" enum:"text,json" default:"text" placeholder:"FORM" help:"text for people; json for scripts, one document a line."`
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
	fleet, err := s.connect()
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
		return fmt.Errorf("write to standard output: %w", err)
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

func (s *session) printJSON(v any) error {
	encoder := json.NewEncoder(s.out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
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
	fleet, err := s.connect()
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
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

func (s *session) explainDead(err error, id string) error {
	if errors.Is(err, ledger.ErrNotDead) {
		return cli.Failf(cli.CodeNotFound, "%s is not in the dead letters; see: enqueuer get %s", id, id)
	}
	return s.explain(err, id)
}

// dlqBulk is what requeue and purge have in common.
type dlqBulk struct {
	IDs []string `arg:"" optional:"" name:"id" help:"The dead letters; or choose them with flags."`
	dlqFilter
	All    bool    `once:"" help:"All dead letters, when no other flag chooses some."`
	Limit  int     `once:"" default:"0" placeholder:"N" help:"At most so many, the newest, 0 for all (${default})."`
	DryRun bool    `once:"" help:"Only tell what would be done."`
	Rate   float64 `once:"" default:"${rate}" placeholder:"N" help:"At most so many a second, 0 for no bound (${default})."`
	listFormat
}

// bulkReport is what a bulk operation did, as a document.
type bulkReport struct {
	DryRun  bool           `json:"dry_run"`
	Chosen  int            `json:"chosen"`
	Classes map[string]int `json:"classes"`
	Done    int            `json:"done"`
	Skipped int            `json:"skipped"`
	Failed  int            `json:"failed"`
}

// run applies do to the chosen dead letters. done is the word for it.
func (c *dlqBulk) run(s *session, done string, do func(*deadletter.Office) func(context.Context, string) error) error {
	switch {
	case len(c.IDs) > 0 && (!c.empty() || c.All):
		return cli.Usagef("name dead letters, or choose them with flags, not both")
	case len(c.IDs) == 0 && c.empty() && !c.All:
		return cli.Usagef("name dead letters, choose some with flags such as --class, or take --all")
	case c.Rate < 0:
		return cli.Usagef("--rate: must not be negative")
	}
	fleet, err := s.connect()
	if err != nil {
		return err
	}
	defer fleet.close()
	report := bulkReport{DryRun: c.DryRun, Classes: map[string]int{}}
	ids, err := c.choose(s, fleet, report.Classes)
	if err != nil {
		return err
	}
	report.Chosen = len(ids)
	if c.DryRun {
		return c.tell(s, report, "would be "+done)
	}
	producer, err := queue.NewProducer(fleet.redis, queue.Config{})
	if err != nil {
		return err
	}
	bar := s.bar(done, int64(len(ids)))
	o, err := deadletter.Bulk(s.ctx, ids, c.Rate, do(deadletter.New(fleet.ledger, producer)), func(o deadletter.Outcome) {
		n := int64(o.Done + o.Skipped + o.Failed)
		bar.move(n, n)
	})
	bar.end()
	report.Done, report.Skipped, report.Failed = o.Done, o.Skipped, o.Failed
	if terr := c.tell(s, report, done); terr != nil {
		return terr
	}
	switch {
	case s.ctx.Err() != nil:
		return cli.Failf(cli.CodeFailed, "interrupted after %d of %d; run the command again for the rest", o.Done+o.Skipped, len(ids))
	case err != nil:
		return s.explain(err, "")
	case o.Failed > 0:
		return cli.Failf(cli.CodeFailed, "%d could not be %s, the first because: %w; run the command again for them", o.Failed, done, o.Err)
	}
	return nil
}

// choose returns the ids, the oldest burial first, and counts them by class.
func (c *dlqBulk) choose(s *session, fleet *fleet, classes map[string]int) ([]string, error) {
	for _, id := range c.IDs {
		e, _, err := fleet.ledger.DeadLetter(s.ctx, id)
		if err != nil {
			return nil, s.explainDead(err, id)
		}
		classes[e.Class]++
	}
	if len(c.IDs) > 0 {
		return c.IDs, nil
	}
	var ids []string
	for e, err := range fleet.ledger.EachDeadLetter(s.ctx, c.filter(c.Limit)) {
		if err != nil {
			return nil, s.explain(err, "")
		}
		ids = append(ids, e.ID)
		classes[e.Class]++
	}
	slices.Reverse(ids)
	return ids, nil
}

func (c *dlqBulk) tell(s *session, r bulkReport, done string) error {
	if c.Format == formatJSON {
		return s.printJSON(r)
	}
	n := r.Done
	if r.DryRun {
		n = r.Chosen
	}
	var classes []string
	for class, n := range r.Classes {
		classes = append(classes, fmt.Sprintf("%d %s", n, class))
	}
	slices.Sort(classes)
	line := fmt.Sprintf("%d dead letters %s", n, done)
	if len(classes) > 0 {
		line += " (" + strings.Join(classes, ", ") + ")"
	}
	if r.Skipped > 0 {
		line += fmt.Sprintf(", %d were none any more", r.Skipped)
	}
	if r.Failed > 0 {
		line += fmt.Sprintf(", %d failed", r.Failed)
	}
	if _, err := fmt.Fprintln(s.out, line); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// dlqRequeueCmd runs dead letters again.
type dlqRequeueCmd struct {
	dlqBulk `set:"rate=50"`
}

// Help explains the command in its --help.
func (*dlqRequeueCmd) Help() string {
	return `Attempts are counted anew; what happened before stays in the history. The oldest are queued first. Bounds on open jobs do not apply, so choose --rate with care. Broken off, it can be run again.

Examples:

    enqueuer dlq requeue --class engine --since 2h --dry-run
    enqueuer dlq requeue --class engine --since 2h --rate 20
    enqueuer dlq requeue ID`
}

// Run carries the command out.
func (c *dlqRequeueCmd) Run(s *session) error {
	return c.run(s, "requeued", func(o *deadletter.Office) func(context.Context, string) error { return o.Requeue })
}

// dlqPurgeCmd removes dead letters.
type dlqPurgeCmd struct {
	dlqBulk `set:"rate=0"`
}

// Help explains the command in its --help.
func (*dlqPurgeCmd) Help() string {
	return `Input, result and history go too: there is no way back. Look first with --dry-run.

Examples:

    enqueuer dlq purge --class poison --until 168h --dry-run
    enqueuer dlq purge ID`
}

// Run carries the command out.
func (c *dlqPurgeCmd) Run(s *session) error {
	return c.run(s, "purged", func(o *deadletter.Office) func(context.Context, string) error { return o.Purge })
}
