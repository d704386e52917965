package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
)

// Again chooses what of a batch is run again.
type Again struct {
	// From is the batch.
	From string
	// Statuses are the statuses that are run again; empty is all that have a result.
	Statuses []string
	// Queue is the queue to use instead of the jobs' own; empty keeps theirs.
	Queue job.Queue
}

// filter is what is remembered of the choice.
func (a Again) filter() string {
	statuses := slices.Clone(a.Statuses)
	slices.Sort(statuses)
	return strings.Join(statuses, ",") + ";" + string(a.Queue)
}

// maxAgain bounds how often a batch is run again under a name that is made up.
const maxAgain = 1000

// Rerun is the batch that runs a batch again: one that was broken off, when it chose the same, else a new
// one. name is its name, empty for FROM.r1, FROM.r2 and so on.
// Errors: ledger.ErrNotFound when there is no such batch to run again.
func (d *Desk) Rerun(ctx context.Context, a Again, name string) (ledger.Batch, error) {
	if _, err := d.book.Batch(ctx, a.From); err != nil {
		return ledger.Batch{}, err
	}
	b := ledger.Batch{Name: name, Source: "batch " + a.From, From: a.From, Filter: a.filter()}
	if name != "" {
		found, _, err := d.book.OpenBatch(ctx, b)
		if err == nil && (found.From != b.From || found.Filter != b.Filter) {
			err = fmt.Errorf("batch %s is there already and was made of something else", name)
		}
		return found, err
	}
	for n := 1; n <= maxAgain; n++ {
		b.Name = fmt.Sprintf("%s.r%d", a.From, n)
		found, made, err := d.book.OpenBatch(ctx, b)
		if err != nil {
			return found, err
		}
		if made || !found.Complete && found.Filter == b.Filter {
			return found, nil
		}
	}
	return b, fmt.Errorf("batch %s was run again %d times already; choose a name", a.From, maxAgain)
}

// Source yields what a chooses, with the inputs as they were submitted. gone counts those whose input is not there any more. A
// job without a result is left out, and counted as open.
func (d *Desk) Source(ctx context.Context, a Again, gone, open *int64) Source {
	return func(yield func(Program, error) bool) {
		*gone, *open = 0, 0
		for p, err := range d.Each(ctx, a.From, 0) {
			if err != nil {
				yield(Program{}, err)
				return
			}
			switch {
			case p.Status == Missing && len(a.Statuses) == 0:
				*gone++
				continue
			case (p.Status == Queued || p.Status == Running) && len(a.Statuses) == 0:
				*open++
				continue
			case len(a.Statuses) > 0 && !slices.Contains(a.Statuses, p.Status), p.Status == Queued, p.Status == Running, p.Status == Missing:
				continue
			}
			j, err := d.book.Input(ctx, p.ID)
			if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, ledger.ErrCorrupt) {
				*gone++
				continue
			}
			if err == nil && a.Queue != "" {
				j.Queue = a.Queue
			}
			if !yield(Program{Key: p.Key, Job: j, old: p.BatchItem, oldStatus: p.Status}, err) || err != nil {
				return
			}
		}
	}
}

// Change is a job whose status differs from that of the job it runs again.
type Change struct {
	Key   string `json:"key"`
	ID    string `json:"id"`
	OldID string `json:"old_id"`
	Old   string `json:"old_status"`
	New   string `json:"new_status"`
}

// Diff compares a batch with the one that it runs again.
type Diff struct {
	// Same counts jobs that ended with the same status, Open those without a result.
	Same, Open int64
	// Moves counts changes by old and new status.
	Moves map[[2]string]int64
}

// Compare tells each change of status and sums up.
func (d *Desk) Compare(ctx context.Context, name string, change func(Change)) (Diff, error) {
	diff := Diff{Moves: map[[2]string]int64{}}
	for p, err := range d.Each(ctx, name, 0) {
		switch {
		case err != nil:
			return diff, err
		case p.Status == Queued, p.Status == Running:
			diff.Open++
		case p.Status == p.OldStatus:
			diff.Same++
		default:
			diff.Moves[[2]string{p.OldStatus, p.Status}]++
			change(Change{Key: p.Key, ID: p.ID, OldID: p.OldID, Old: p.OldStatus, New: p.Status})
		}
	}
	return diff, nil
}
