// Package batch submits many jobs under one name and collects what became of them.
//
// The id of each job is made from the name of the batch and the job's content, so a submission that
// was broken off can be done again: what is there already is found, and the rest is submitted. Results
// come in the order of the input. A batch can be run again, whole or in part, as another
// batch, and the two can be compared.
package batch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
)

// Program is one job of a batch before it is submitted.
type Program struct {
	// Key is what the submitter calls it.
	Key string
	Job job.Job
	// old is the job that this one runs again.
	old ledger.BatchItem
	// oldStatus is how that one ended.
	oldStatus string
}

// Source yields the programs of a batch in order; an error ends it. It can be walked
// through again and yields the same.
type Source = iter.Seq2[Program, error]

// Book is what a Desk needs of package ledger, where each method is documented.
type Book interface {
	// OpenBatch makes a batch or returns the one that has the name.
	OpenBatch(ctx context.Context, b ledger.Batch) (found ledger.Batch, made bool, err error)
	// Batch returns a batch.
	Batch(ctx context.Context, name string) (ledger.Batch, error)
	// PutBatchItems writes items into a batch.
	PutBatchItems(ctx context.Context, name string, items []ledger.BatchItem) error
	// CompleteBatch notes that all items were submitted.
	CompleteBatch(ctx context.Context, name string, items int64) error
	// BatchItems returns items of a batch in order.
	BatchItems(ctx context.Context, name string, from, n int64) ([]ledger.BatchItem, error)
	// Standings tells where many jobs stand.
	Standings(ctx context.Context, ids []string) ([]ledger.Standing, error)
	// Input returns a job as it was submitted.
	Input(ctx context.Context, id string) (job.Job, error)
}

// Intake takes in jobs and hands out results, as intake.Desk does.
type Intake interface {
	// Submit takes a job in.
	Submit(ctx context.Context, j job.Job) (id string, existed bool, err error)
	// Result returns the result of a job.
	Result(ctx context.Context, id string) (job.Result, error)
	// Wait returns the result of a job as soon as there is one.
	Wait(ctx context.Context, id string) (job.Result, error)
}

var _ Book = (*ledger.Ledger)(nil)

// Desk handles batches. It is safe for concurrent use and owns no goroutine.
type Desk struct {
	book   Book
	intake Intake
}

// New returns a Desk.
func New(b Book, i Intake) *Desk { return &Desk{book: b, intake: i} }

// jobID is the id of a job in a batch: the same for the same content. nth tells apart jobs of the same content.
func jobID(batch, digest string, nth int64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "tracefleet.batch/1\n%s\n%s\n%d", batch, digest, nth))
	return "b-" + hex.EncodeToString(sum[:16])
}

// numbering counts how often a content was met.
type numbering map[string]int64

func (n numbering) next(digest string) int64 {
	nth := n[digest]
	n[digest]++
	return nth
}

// Survey walks through a source once and returns how many programs it has and a short hash of
// all their contents, for a name that is the same for the same input.
func Survey(source Source) (programs int64, hash string, err error) {
	sum := sha256.New()
	for p, err := range source {
		if err != nil {
			return 0, "", err
		}
		programs++
		_, _ = fmt.Fprintln(sum, p.Job.Digest()) // A hash never fails.
	}
	return programs, hex.EncodeToString(sum.Sum(nil)[:4]), nil
}
