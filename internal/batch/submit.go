package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/execra/tracefleet/internal/ledger"
)

// Progress tells how far a submission is. It comes from one goroutine at a time.
type Progress struct {
	// Done counts jobs that are submitted, Existed those of them that were there already.
	Done, Existed int64
	// Full is why the fleet takes nothing at the moment; nil when it does.
	Full *ledger.FullError
}

// chunk is how many jobs are looked up and written down at once.
const chunk = 100

// DefaultParallel is how many jobs are submitted at the same time.
const DefaultParallel = 8

// Submit submits all programs of source as the batch b, parallel at the same time. When the fleet is full it waits
// and tries again. After an error or the end of ctx the same call goes on where this one ended.
func (d *Desk) Submit(ctx context.Context, b ledger.Batch, source Source, parallel int, tell func(Progress)) (Progress, error) {
	if _, _, err := d.book.OpenBatch(ctx, b); err != nil {
		return Progress{}, err
	}
	s := &submission{Desk: d, batch: b.Name, parallel: max(parallel, 1), tell: tell, seen: numbering{}}
	var pending []Program
	for p, err := range source {
		if err != nil {
			return s.progress, err
		}
		if pending = append(pending, p); len(pending) == chunk {
			if err := s.flush(ctx, pending); err != nil {
				return s.progress, err
			}
			pending = pending[:0]
		}
	}
	if err := s.flush(ctx, pending); err != nil {
		return s.progress, err
	}
	return s.progress, d.book.CompleteBatch(ctx, b.Name, s.next)
}

// submission is one call of Submit.
type submission struct {
	*Desk
	batch    string
	parallel int
	tell     func(Progress)
	seen     numbering
	next     int64

	mu       sync.Mutex
	progress Progress
}

// flush writes some items down and submits those that are not there yet.
func (s *submission) flush(ctx context.Context, programs []Program) error {
	if len(programs) == 0 {
		return nil
	}
	items, ids := make([]ledger.BatchItem, len(programs)), make([]string, len(programs))
	for i := range programs {
		p := &programs[i]
		p.Job = p.Job.Normalize()
		digest := p.Job.Digest()
		p.Job.ID = jobID(s.batch, digest, s.seen.next(digest))
		ids[i] = p.Job.ID
		items[i] = ledger.BatchItem{Index: s.next, ID: p.Job.ID, Key: p.Key, OldID: p.old.ID, OldStatus: p.oldStatus}
		s.next++
	}
	if err := s.book.PutBatchItems(ctx, s.batch, items); err != nil {
		return err
	}
	there, err := s.book.Standings(ctx, ids)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.parallel)
	for i, p := range programs {
		if there[i].State != "" {
			s.done(true)
			continue
		}
		group.Go(func() error { return s.submit(ctx, p) })
	}
	return group.Wait()
}

// submit submits one job, as soon as there is room for it.
func (s *submission) submit(ctx context.Context, p Program) error {
	for {
		_, existed, err := s.intake.Submit(ctx, p.Job)
		var full *ledger.FullError
		switch {
		case err == nil:
			s.done(existed)
			return nil
		case !errors.As(err, &full):
			// One that is stored and could not be queued is queued by the reconciler.
			if there, serr := s.book.Standings(ctx, []string{p.Job.ID}); serr != nil || there[0].State == "" {
				return fmt.Errorf("%s: %w", p.Key, err)
			}
			s.done(false)
			return nil
		}
		s.full(full)
		timer := time.NewTimer(full.RetryAfter)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

func (s *submission) done(existed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress.Done++
	s.progress.Full = nil
	if existed {
		s.progress.Existed++
	}
	s.tell(s.progress)
}

func (s *submission) full(full *ledger.FullError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress.Full = full
	s.tell(s.progress)
}
