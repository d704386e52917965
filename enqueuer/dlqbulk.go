package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/deadletter"
)

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
	fleet, err := s.connect(wiring{})
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
	bar := s.bar(done, int64(len(ids)))
	o, err := deadletter.Bulk(s.ctx, ids, c.Rate, do(deadletter.New(fleet.ledger, fleet.producer)), func(o deadletter.Outcome) {
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
	return s.printLine("%s", line)
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
