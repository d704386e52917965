package batch

import (
	"context"
	"iter"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
)

// The words for jobs without a status, beside those of job.Statuses.
const (
	// Queued and Running are open jobs.
	Queued  = string(ledger.StateQueued)
	Running = string(ledger.StateRunning)
	// Missing is a job that is not there: not submitted yet, or its retention is over.
	Missing = "missing"
)

// page is how many items are read in one round trip.
const page = 500

// Placed is an item with where its job stands.
type Placed struct {
	ledger.BatchItem
	// Status is a job.Status, Queued, Running or Missing.
	Status string
}

// Each yields the items of a batch in order, with where they stand.
func (d *Desk) Each(ctx context.Context, name string, from int64) iter.Seq2[Placed, error] {
	return func(yield func(Placed, error) bool) {
		for at := from; ; at += page {
			items, err := d.book.BatchItems(ctx, name, at, page)
			if err != nil {
				yield(Placed{}, err)
				return
			}
			placed, err := d.place(ctx, items)
			if err != nil {
				yield(Placed{}, err)
				return
			}
			for _, p := range placed {
				if !yield(p, nil) {
					return
				}
			}
			if len(items) < page {
				return
			}
		}
	}
}

func (d *Desk) place(ctx context.Context, items []ledger.BatchItem) ([]Placed, error) {
	if len(items) == 0 {
		return nil, nil
	}
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.ID
	}
	standings, err := d.book.Standings(ctx, ids)
	if err != nil {
		return nil, err
	}
	placed := make([]Placed, len(items))
	for i, item := range items {
		placed[i] = Placed{BatchItem: item, Status: word(standings[i])}
	}
	return placed, nil
}

func word(s ledger.Standing) string {
	switch {
	case s.State == "":
		return Missing
	case s.State.Terminal():
		return string(s.Status)
	}
	return string(s.State)
}

// Status is where the jobs of a batch stand.
type Status struct {
	ledger.Batch
	// Items is how many are known of so far; all of them when Complete.
	Items int64
	// Counts is by job.Status, Queued, Running or Missing. Open counts those that have no result and may get one.
	Counts map[string]int64
	Open   int64
}

// Status counts where the jobs of a batch stand.
// Errors: ledger.ErrNotFound.
func (d *Desk) Status(ctx context.Context, name string) (Status, error) {
	b, err := d.book.Batch(ctx, name)
	if err != nil {
		return Status{}, err
	}
	s := Status{Batch: b, Counts: map[string]int64{}}
	for p, err := range d.Each(ctx, name, 0) {
		if err != nil {
			return s, err
		}
		s.count(p.Status)
	}
	return s, nil
}

func (s *Status) count(status string) {
	s.Items++
	s.Counts[status]++
	if status == Queued || status == Running || status == Missing && !s.Complete {
		s.Open++
	}
}

// watchEvery is how often Watch looks.
const watchEvery = 500 * time.Millisecond

// Watch waits until every job of a batch has its result, or ctx ends, and tells where they stand meanwhile. A job that
// has its result is not looked at again.
func (d *Desk) Watch(ctx context.Context, name string, tell func(Status)) (Status, error) {
	ended := Status{Counts: map[string]int64{}}
	var open []ledger.BatchItem
	for next := int64(0); ; {
		b, err := d.book.Batch(ctx, name)
		if err != nil {
			return ended, err
		}
		// New items may still come.
		for {
			items, err := d.book.BatchItems(ctx, name, next, page)
			if err != nil {
				return ended, err
			}
			open, next = append(open, items...), next+int64(len(items))
			if len(items) < page {
				break
			}
		}
		s, rest, err := d.sort(ctx, b, &ended, open)
		if err != nil {
			return s, err
		}
		open = rest
		tell(s)
		if s.Open == 0 && s.Complete {
			return s, nil
		}
		timer := time.NewTimer(watchEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return s, context.Cause(ctx)
		}
	}
}

// sort looks at the open items, moves those that have ended to ended, and returns the state of all and what is still open.
func (d *Desk) sort(ctx context.Context, b ledger.Batch, ended *Status, open []ledger.BatchItem) (Status, []ledger.BatchItem, error) {
	ended.Batch = b
	now := Status{Batch: b, Counts: map[string]int64{}}
	var rest []ledger.BatchItem
	for len(open) > 0 {
		n := min(page, len(open))
		placed, err := d.place(ctx, open[:n])
		if err != nil {
			return now, nil, err
		}
		open = open[n:]
		for _, p := range placed {
			if job.Status(p.Status).Valid() || p.Status == Missing && b.Complete {
				ended.count(p.Status)
				continue
			}
			now.count(p.Status)
			rest = append(rest, p.BatchItem)
		}
	}
	now.Items += ended.Items
	for status, n := range ended.Counts {
		now.Counts[status] += n
	}
	return now, rest, nil
}
