package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/execra/tracefleet/internal/batch"
	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
)

// batchCmd handles many jobs under one name.
type batchCmd struct {
	Submit    batchSubmitCmd    `cmd:"" help:"Submit a folder of programs, or a file of jobs."`
	Status    batchStatusCmd    `cmd:"" help:"Tell where the jobs of a batch stand."`
	Results   batchResultsCmd   `cmd:"" help:"Write the results of a batch to a file, in the order of the input."`
	Reprocess batchReprocessCmd `cmd:"" help:"Run a batch again and compare."`
}

// batchSubmitCmd submits a batch.
type batchSubmitCmd struct {
	From      string            `arg:"" name:"dir|file.jsonl" help:"A folder, or a file with one Job document a line."`
	Batch     string            `once:"" placeholder:"NAME" help:"Name of the batch; made from the input when left out, so that the same input is the same batch."`
	Queue     string            `once:"" placeholder:"Q" help:"Queue of all jobs (batch, if they name none)."`
	Tenant    string            `once:"" placeholder:"T" help:"Tenant of all jobs."`
	Label     map[string]string `once:"" mapsep:"none" placeholder:"KEY=VALUE" help:"A label for all jobs; may be given again."`
	Retention *cli.Seconds      `once:"" placeholder:"TIME" help:"How long all results are kept, 1m to 720h."`
	Mode      string            `once:"" enum:"full,lines,calls,off" default:"full" placeholder:"MODE" help:"What to trace of a folder's programs: full, lines, calls, off."`
	Parallel  int               `once:"" default:"8" placeholder:"N" help:"Jobs submitted at the same time (${default})."`
	listFormat
	limitFlags
	admissionFlags
}

// Help explains the command in its --help.
func (*batchSubmitCmd) Help() string {
	return `Of a folder every *.py file is a program, every folder with a main.py a project, and every *.json file a Job document; other folders are searched. The limits are for a folder's programs.

All jobs are checked before the first is submitted. The id of each is made from the name of the batch and its content: broken off, the same command goes on where it stopped and doubles nothing. When the fleet is full it waits. Prints the name of the batch.

Examples:

    enqueuer batch submit programs/ --wall 5s
    enqueuer batch submit jobs.jsonl --batch nightly-2026-11-30`
}

// Run carries the command out.
func (c *batchSubmitCmd) Run(s *session) error {
	source, err := c.source(s)
	if err != nil {
		return err
	}
	total, hash, err := batch.Survey(source)
	switch {
	case err != nil:
		return err
	case total == 0:
		return cli.Failf(cli.CodeRefused, "%s holds no job", c.From)
	case c.Batch == "":
		c.Batch = madeUpName(c.From, hash)
	case !job.ValidID(c.Batch):
		return cli.Usagef("--batch: letters, digits and _ . : - only, at most %d, got %q", job.MaxIDBytes, c.Batch)
	}
	fleet, err := s.connect(wiring{admission: c.admission()})
	if err != nil {
		return err
	}
	defer fleet.close()
	if err := withinAll(fleet.maxima, source); err != nil {
		return err
	}
	desk := batch.New(fleet.ledger, fleet.desk)
	progress, err := s.submitBatch(desk, ledger.Batch{Name: c.Batch, Source: c.From}, source, total, c.Parallel)
	if err != nil {
		return err
	}
	if c.Format == formatJSON {
		return s.printJSON(map[string]any{"batch": c.Batch, "jobs": progress.Done, "existed": progress.Existed})
	}
	if progress.Existed > 0 && !s.Quiet {
		s.notice("%d of %d jobs were there already\n", progress.Existed, progress.Done)
	}
	return s.printLine("%s", c.Batch)
}

// withinAll refuses jobs of which one asks for more than the fleet takes now. Their limits are not brought down: the ids of the jobs
// depend on them, and the same batch is to be the same tomorrow.
func withinAll(maxima job.Limits, source batch.Source) error {
	if maxima == job.MaxLimits() {
		return nil // It was checked as it was read.
	}
	for p, err := range source {
		if err != nil {
			return err
		}
		if err := refused(p.Job.Validate(maxima)); err != nil {
			return within(p.Key, err)
		}
	}
	return nil
}

// submitBatch submits with a progress bar.
func (s *session) submitBatch(desk *batch.Desk, b ledger.Batch, source batch.Source, total int64, parallel int) (batch.Progress, error) {
	bar := s.bar("submitting", total)
	told := false
	progress, err := desk.Submit(s.ctx, b, source, parallel, func(p batch.Progress) {
		bar.say("")
		if p.Full != nil {
			wait := p.Full.RetryAfter.Round(time.Second)
			bar.say(fmt.Sprintf("the fleet is full, waiting %s", wait))
			if !told && !bar.live && !s.Quiet {
				told = true
				s.notice("waiting: %v\n", p.Full)
			}
		}
		bar.move(p.Done, p.Done-p.Existed)
	})
	bar.end()
	switch {
	case err == nil:
		return progress, nil
	case s.ctx.Err() != nil:
		return progress, cli.Failf(cli.CodeFailed, "interrupted after %d of %d jobs; the same command goes on from there", progress.Done, total)
	}
	return progress, s.explainBatch(err, b.Name)
}

func (s *session) explainBatch(err error, name string) error {
	if errors.Is(err, ledger.ErrNotFound) {
		return cli.Failf(cli.CodeNotFound, "there is no batch %s; list them with: enqueuer batch status", name)
	}
	return s.explain(err, "")
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// madeUpName is a name for a batch from a file or folder.
func madeUpName(from, hash string) string {
	if absolute, err := filepath.Abs(from); err == nil {
		from = absolute
	}
	base := strings.TrimSuffix(filepath.Base(from), ".jsonl")
	base = strings.Trim(notInName.ReplaceAllString(base, "-"), "-._")
	if len(base) > 60 {
		base = base[:60]
	}
	if base == "" {
		base = "batch"
	}
	return base + "-" + hash
}

// batchStatusCmd tells where a batch stands.
type batchStatusCmd struct {
	Batch string       `arg:"" optional:"" name:"batch" help:"The batch; the newest ones are listed when left out."`
	Wait  cli.Duration `once:"" default:"0s" placeholder:"TIME" help:"Wait this long for all results."`
	listFormat
}

// Help explains the command in its --help.
func (*batchStatusCmd) Help() string {
	return `The exit code is 1 when jobs are open after --wait was given. Of a batch made by reprocess the changes of status are shown too.

Examples:

    enqueuer batch status
    enqueuer batch status nightly-2026-11-30 --wait 1h`
}

// Run carries the command out.
func (c *batchStatusCmd) Run(s *session) error {
	fleet, err := s.connect(wiring{})
	if err != nil {
		return err
	}
	defer fleet.close()
	if c.Batch == "" {
		return c.list(s, fleet)
	}
	desk := batch.New(fleet.ledger, fleet.desk)
	var status batch.Status
	if c.Wait > 0 {
		status, err = s.watchBatch(desk, c.Batch, time.Duration(c.Wait))
	} else {
		status, err = desk.Status(s.ctx, c.Batch)
	}
	if err != nil && !errors.Is(err, errStillOpen) {
		return s.explainBatch(err, c.Batch)
	}
	if perr := s.printStatus(desk, status, c.listFormat); perr != nil {
		return perr
	}
	if err != nil {
		return cli.Failf(cli.CodeFailed, "%d jobs of %s are open after %s", status.Open, c.Batch, time.Duration(c.Wait))
	}
	return nil
}

// watchBatch waits for all results of a batch with a progress bar.
func (s *session) watchBatch(desk *batch.Desk, name string, limit time.Duration) (batch.Status, error) {
	ctx, cancel := context.WithTimeoutCause(s.ctx, limit, errStillOpen)
	defer cancel()
	var bar *bar
	var first int64
	status, err := desk.Watch(ctx, name, func(st batch.Status) {
		done := st.Items - st.Open
		if bar == nil {
			bar, first = s.bar("finished", 0), done
		}
		bar.total = max(st.Items, st.Batch.Items)
		bar.move(done, done-first)
	})
	if bar != nil {
		bar.end()
	}
	return status, err
}

func (c *batchStatusCmd) list(s *session, fleet *fleet) error {
	const most = 50
	batches, err := fleet.ledger.Batches(s.ctx, most)
	if err != nil {
		return s.explain(err, "")
	}
	if len(batches) == 0 && !s.Quiet {
		s.notice("there are no batches\n")
	}
	for _, b := range batches {
		if c.Format == formatJSON {
			err = s.printJSON(batchDocument(batch.Status{Batch: b, Items: b.Items}))
		} else {
			jobs := fmt.Sprintf("%d jobs", b.Items)
			if !b.Complete {
				jobs = "not submitted to its end"
			}
			err = s.printLine("%s  %s, %s, from %s", b.CreatedAt.Local().Format(time.DateTime), b.Name, jobs, b.Source)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// batchResultsCmd writes results.
type batchResultsCmd struct {
	Batch string       `arg:"" name:"batch" help:"The batch."`
	Out   string       `once:"" short:"o" required:"" placeholder:"FILE" help:"File to write, one document a line; - for standard output."`
	Wait  cli.Duration `once:"" default:"24h" placeholder:"TIME" help:"How long to wait for results that are not there yet (${default}); 0s to stop at the first."`
}

// Help explains the command in its --help.
func (*batchResultsCmd) Help() string {
	return `Line n is {"index","key","id","status","result"} of the n-th job of the input; result is the whole document, or null with status "missing" when its retention is over. Broken off, the same command goes on behind the last whole line of FILE.

Examples:

    enqueuer batch results nightly-2026-11-30 -o results.jsonl
    enqueuer batch results nightly-2026-11-30 -o - | jq -r 'select(.status!="ok") | .key'`
}

// batchReprocessCmd runs a batch again.
type batchReprocessCmd struct {
	From     string       `once:"" required:"" placeholder:"BATCH" help:"The batch to run again."`
	Status   []string     `once:"" placeholder:"S,…" help:"Only jobs that ended with one of these statuses; all when left out."`
	Batch    string       `once:"" placeholder:"NAME" help:"Name of the new batch; BATCH.r1, .r2, … when left out."`
	Queue    string       `once:"" enum:",interactive,default,batch" default:"" placeholder:"Q" help:"Queue for the new jobs; the one they had when left out."`
	Wait     cli.Duration `once:"" default:"24h" placeholder:"TIME" help:"How long to wait for the results and the comparison (${default}); 0s not at all."`
	Parallel int          `once:"" default:"8" placeholder:"N" help:"Jobs submitted at the same time (${default})."`
	listFormat
	admissionFlags
}

// Help explains the command in its --help.
func (*batchReprocessCmd) Help() string {
	return `The inputs are those of before, byte for byte; results are new, and the old ones stay. At the end the statuses are compared. Broken off, the same command goes on with the same new batch.

Examples:

    enqueuer batch reprocess --from nightly-2026-11-30
    enqueuer batch reprocess --from nightly-2026-11-30 --status time_limit,memory_limit --wait 0s`
}

// Run carries the command out.
func (c *batchReprocessCmd) Run(s *session) error {
	for _, status := range c.Status {
		if !job.Status(status).Valid() {
			return cli.Usagef("--status: %q is no status of a result", status)
		}
	}
	if c.Batch != "" && !job.ValidID(c.Batch) {
		return cli.Usagef("--batch: %q is no valid name", c.Batch)
	}
	fleet, err := s.connect(wiring{admission: c.admission()})
	if err != nil {
		return err
	}
	defer fleet.close()
	desk := batch.New(fleet.ledger, fleet.desk)
	again := batch.Again{From: c.From, Statuses: c.Status, Queue: job.Queue(c.Queue)}
	b, err := desk.Rerun(s.ctx, again, c.Batch)
	if err != nil {
		return s.explainBatch(err, c.From)
	}
	var gone, open int64
	source := desk.Source(s.ctx, again, &gone, &open)
	total, _, err := batch.Survey(source)
	if err != nil {
		return s.explainBatch(err, c.From)
	}
	if _, err := s.submitBatch(desk, b, source, total, c.Parallel); err != nil {
		return err
	}
	if !s.Quiet {
		s.notice("batch %s: %d jobs run again, %d left out because their input is gone, %d because they are open\n", b.Name, total, gone, open)
	}
	if c.Wait == 0 {
		return s.printLine("%s", b.Name)
	}
	status, err := s.watchBatch(desk, b.Name, time.Duration(c.Wait))
	if err != nil {
		if s.ctx.Err() != nil || errors.Is(err, errStillOpen) {
			return cli.Failf(cli.CodeFailed, "%d jobs are open; compare later with: enqueuer batch status %s", status.Open, b.Name)
		}
		return s.explainBatch(err, b.Name)
	}
	return s.printStatus(desk, status, c.listFormat)
}
