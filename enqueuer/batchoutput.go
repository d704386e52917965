package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/execra/tracefleet/internal/batch"
	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/oneline"
)

// batchReport is where a batch stands, as a document.
type batchReport struct {
	Batch    string           `json:"batch"`
	Source   string           `json:"source"`
	From     string           `json:"from,omitempty"`
	Created  time.Time        `json:"created_at"`
	Complete bool             `json:"complete"`
	Jobs     int64            `json:"jobs"`
	Open     int64            `json:"open"`
	Statuses map[string]int64 `json:"statuses,omitempty"`
	Diff     *batchDiff       `json:"diff,omitempty"`
}

// batchDiff is what changed against the batch of before, as a document.
type batchDiff struct {
	Same    int64          `json:"same"`
	Open    int64          `json:"open"`
	Changed int64          `json:"changed"`
	Changes []batch.Change `json:"changes"`
}

// maxChanges bounds the changes that are shown one by one.
const maxChanges = 1000

func batchDocument(s batch.Status) batchReport {
	return batchReport{
		Batch: s.Name, Source: s.Source, From: s.From, Created: s.CreatedAt, Complete: s.Complete, Jobs: s.Items, Open: s.Open, Statuses: s.Counts,
	}
}

// printStatus prints where a batch stands and, of one that ran another again, what changed.
func (s *session) printStatus(desk *batch.Desk, status batch.Status, f listFormat) error {
	report := batchDocument(status)
	var moves map[[2]string]int64
	if status.From != "" {
		diff := batchDiff{Changes: []batch.Change{}}
		found, err := desk.Compare(s.ctx, status.Name, func(c batch.Change) {
			diff.Changed++
			if len(diff.Changes) < maxChanges {
				diff.Changes = append(diff.Changes, c)
			}
		})
		if err != nil {
			return s.explainBatch(err, status.Name)
		}
		diff.Same, diff.Open, moves = found.Same, found.Open, found.Moves
		report.Diff = &diff
	}
	if f.Format == formatJSON {
		return s.printJSON(report)
	}
	_, err := io.WriteString(s.out, report.text(moves))
	return written(err)
}

// text is the report for people.
func (r batchReport) text(moves map[[2]string]int64) string {
	const listed = 20
	out := fmt.Sprintf("%s: %d jobs from %s, %d open\n", r.Batch, r.Jobs, r.Source, r.Open)
	if !r.Complete {
		out += "  not submitted to its end; submit it again to go on\n"
	}
	for _, status := range statusWords() {
		if n := r.Statuses[status]; n > 0 {
			out += fmt.Sprintf("  %-14s %d\n", status, n)
		}
	}
	if r.Diff == nil {
		return out
	}
	out += fmt.Sprintf("against %s: %d ended as before, %d otherwise, %d are open\n", r.From, r.Diff.Same, r.Diff.Changed, r.Diff.Open)
	for _, move := range slices.SortedFunc(maps.Keys(moves), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		out += fmt.Sprintf("  %s -> %s  %d\n", move[0], move[1], moves[move])
	}
	for i, c := range r.Diff.Changes {
		if i == listed {
			out += fmt.Sprintf("  … and %d more; all with --format json\n", r.Diff.Changed-listed)
			break
		}
		out += fmt.Sprintf("    %s  %s -> %s  %s\n", oneline.Of(c.Key, 60), c.Old, c.New, c.ID)
	}
	return out
}

// statusWords are all words for where a job stands.
func statusWords() []string {
	var words []string
	for _, s := range job.Statuses() {
		words = append(words, string(s))
	}
	slices.Reverse(words) // ok first
	return append(words, batch.Running, batch.Queued, batch.Missing)
}

// Run carries the command out.
func (c *batchResultsCmd) Run(s *session) error {
	fleet, err := s.connect(wiring{})
	if err != nil {
		return err
	}
	defer fleet.close()
	desk := batch.New(fleet.ledger, fleet.desk)
	b, err := fleet.ledger.Batch(s.ctx, c.Batch)
	if err != nil {
		return s.explainBatch(err, c.Batch)
	}
	from, out, err := c.open(s, desk)
	if err != nil {
		return err
	}
	bar := s.bar("results", b.Items)
	ctx, cancel := context.WithTimeoutCause(s.ctx, time.Duration(c.Wait), errStillOpen)
	if c.Wait == 0 {
		ctx = s.ctx
	}
	next, err := desk.Results(ctx, c.Batch, from, c.Wait > 0, out, func(next int64) { bar.move(next, next-from) })
	cancel()
	bar.end()
	if cerr := c.finish(out); err == nil && cerr != nil {
		err = cli.Failf(cli.CodeFailed, "write %s: %w", c.Out, cerr)
	}
	if !s.Quiet && c.Out != "-" {
		s.notice("%d results in %s, %d of them new\n", next, c.Out, next-from)
	}
	switch {
	case err == nil:
		return nil
	case s.ctx.Err() != nil:
		return cli.Failf(cli.CodeFailed, "interrupted after %d results; the same command goes on from there", next)
	case errors.Is(err, batch.ErrOpen), errors.Is(err, errStillOpen):
		return cli.Failf(cli.CodeFailed, "result %d is not there yet; the same command goes on from there", next+1)
	}
	return s.explainBatch(err, c.Batch)
}

// open opens the file at the place to go on from.
func (c *batchResultsCmd) open(s *session, desk *batch.Desk) (from int64, out io.Writer, err error) {
	if c.Out == "-" {
		return 0, s.out, nil
	}
	file, err := os.OpenFile(c.Out, os.O_RDWR|os.O_CREATE, 0o600) // results are private
	if err != nil {
		return 0, nil, cannotWrite(err)
	}
	lines, size, err := desk.Check(s.ctx, c.Batch, file)
	if err == nil {
		err = file.Truncate(size)
	}
	if err == nil {
		_, err = file.Seek(size, io.SeekStart)
	}
	if err == nil {
		return lines, file, nil
	}
	_ = file.Close() // nothing was written
	var mismatch *batch.MismatchError
	if errors.As(err, &mismatch) {
		return 0, nil, cli.Failf(cli.CodeRefused, "%s holds something else: %w; name another file, or remove it", c.Out, mismatch)
	}
	return 0, nil, s.explainBatch(err, c.Batch)
}

func (c *batchResultsCmd) finish(out io.Writer) error {
	file, ok := out.(*os.File)
	if !ok || c.Out == "-" {
		return nil
	}
	return errors.Join(file.Sync(), file.Close())
}
