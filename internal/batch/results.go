package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
)

// Line is one line of a file of results.
type Line struct {
	Index int64  `json:"index"`
	Key   string `json:"key"`
	ID    string `json:"id"`
	// Status is that of the result, or Missing.
	Status string `json:"status"`
	// Result is a Result document; null for a missing one.
	Result json.RawMessage `json:"result"`
}

// ErrOpen means that the next job in order has no result yet.
var ErrOpen = errors.New("not all jobs have a result yet")

// fetchers is how many results are read at the same time. Each may have tens of MiB.
const fetchers = 4

// Results writes the results of a batch to w, one Line a line, in the order of the input, beginning at an index. It waits for
// each as long as ctx allows, or, without wait, ends at the first that is not there, with ErrOpen. next is the index to go
// on with.
func (d *Desk) Results(ctx context.Context, name string, from int64, wait bool, w io.Writer, tell func(next int64)) (next int64, err error) {
	b, err := d.book.Batch(ctx, name)
	if err != nil {
		return from, err
	}
	for next = from; ; {
		items, err := d.book.BatchItems(ctx, name, next, fetchers)
		if err != nil {
			return next, err
		}
		lines, err := d.lines(ctx, items, b.Complete)
		for _, line := range lines {
			if line == nil {
				break
			}
			if _, werr := w.Write(line); werr != nil {
				return next, werr
			}
			next++
			tell(next)
		}
		switch {
		case err == nil && len(items) < fetchers && b.Complete && next >= b.Items:
			return next, nil
		case err == nil && len(items) > 0:
			continue
		case err == nil: // Its submission is under way, or was broken off.
			return next, fmt.Errorf("batch %s was not submitted to its end: %w", name, ErrOpen)
		case !errors.Is(err, ErrOpen) || !wait:
			return next, err
		}
		if err := d.await(ctx, name, next); err != nil {
			return next, err
		}
	}
}

// await waits for the result of one item.
func (d *Desk) await(ctx context.Context, name string, index int64) error {
	items, err := d.book.BatchItems(ctx, name, index, 1)
	if err != nil || len(items) == 0 {
		return err
	}
	_, err = d.intake.Wait(ctx, items[0].ID)
	if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, ledger.ErrCorrupt) {
		return nil // The next look says so.
	}
	return err
}

// lines encodes results. Those behind the first that is not there are nil.
func (d *Desk) lines(ctx context.Context, items []ledger.BatchItem, complete bool) ([][]byte, error) {
	lines, faults := make([][]byte, len(items)), make([]error, len(items))
	var group errgroup.Group
	group.SetLimit(fetchers)
	for i, item := range items {
		group.Go(func() error {
			lines[i], faults[i] = d.line(ctx, item, complete)
			return nil
		})
	}
	_ = group.Wait() // Each keeps its own error.
	for i, err := range faults {
		if err != nil {
			for k := i; k < len(lines); k++ {
				lines[k] = nil
			}
			return lines, err
		}
	}
	return lines, nil
}

func (d *Desk) line(ctx context.Context, item ledger.BatchItem, complete bool) ([]byte, error) {
	l := Line{Index: item.Index, Key: item.Key, ID: item.ID, Status: Missing}
	r, err := d.intake.Result(ctx, item.ID)
	switch {
	case err == nil:
		l.Status = string(r.Status)
		if l.Result, err = job.EncodeResult(r); err != nil {
			return nil, err
		}
	case errors.Is(err, ledger.ErrNotFinished), errors.Is(err, ledger.ErrNotFound) && !complete:
		return nil, fmt.Errorf("%s (%s): %w", item.Key, item.ID, ErrOpen)
	case errors.Is(err, ledger.ErrNotFound), errors.Is(err, ledger.ErrCorrupt):
	default:
		return nil, err
	}
	var doc bytes.Buffer
	enc := json.NewEncoder(&doc)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		return nil, fmt.Errorf("encode the result of %s: %w", item.ID, err)
	}
	return doc.Bytes(), nil
}

// MismatchError means that a file of results is not of this batch.
type MismatchError struct{ Line int64 }

// Error names the line.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("line %d is not the result of this batch's job number %d", e.Line, e.Line)
}

// Check tells how many whole lines at the beginning of a file are the first results of a batch, and how many bytes
// they have; what follows is the rest of a line that was broken off.
// Errors: *MismatchError.
func (d *Desk) Check(ctx context.Context, name string, file io.Reader) (lines, size int64, err error) {
	dec := newLineReader(file)
	var items []ledger.BatchItem
	for {
		doc, err := dec.next()
		if errors.Is(err, io.EOF) {
			return lines, size, nil
		}
		if err != nil {
			return lines, size, err
		}
		if len(items) == 0 {
			if items, err = d.book.BatchItems(ctx, name, lines, page); err != nil {
				return lines, size, err
			}
		}
		var l Line
		if json.Unmarshal(doc, &l) != nil || len(items) == 0 || l.Index != lines || l.ID != items[0].ID {
			return lines, size, &MismatchError{Line: lines + 1}
		}
		items, lines, size = items[1:], lines+1, size+int64(len(doc))
	}
}
