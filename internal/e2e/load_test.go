package e2e_test

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/execra/tracefleet/internal/job"
)

// Fifty jobs at once on two workers: each answer is the right one, each
// worker did its part, nothing is left.
func TestFiftyJobsAtOnce(t *testing.T) {
	const jobs = 50
	f := newFleet(t)
	workers := []*worker{f.start("w1", 2), f.start("w2", 2)}
	ids, results := make([]string, jobs), make([]job.Result, jobs)
	var submitting errgroup.Group
	submitting.SetLimit(10)
	for i := range jobs {
		submitting.Go(func() error {
			code := fmt.Sprintf("total = 0\nfor n in range(%d):\n    total += n\nprint(%d, total)\n", i, i)
			ids[i] = f.submit(t, program(t, code, nil))
			return nil
		})
	}
	_ = submitting.Wait() // failures are the test's
	var fetching errgroup.Group
	fetching.SetLimit(10)
	for i, id := range ids {
		fetching.Go(func() error {
			results[i] = f.result(t, id)
			return nil
		})
	}
	_ = fetching.Wait()

	seen, by := map[string]bool{}, map[string]int{}
	for i, r := range results {
		wantOK(t, r, fmt.Sprintf("%d %d\n", i, i*(i-1)/2))
		if got := r.Summary.Lines["main.py"]["3"]; got != int64(i) {
			t.Errorf("job %d: got %d passes of the loop, want %d", i, got, i)
		}
		if seen[r.ID] {
			t.Errorf("got id %s twice", r.ID)
		}
		seen[r.ID] = true
		by[r.Worker]++
	}
	if len(by) != len(workers) {
		t.Errorf("got jobs done by %v, want both workers", by)
	}
	for _, w := range workers {
		w.stop()
	}
	f.wantNoContainers()
}

// A program that writes a gigabyte must not make the worker grow.
func TestOutputFloodLeavesWorkerSmall(t *testing.T) {
	const standard, largest = 1_000_000, 16_000_000
	for name, c := range map[string]struct {
		outputBytes int
		mostMemory  int64
	}{
		"standard limit": {standard, 100 << 20},
		// Two jobs with 32 MB of output each, which are held several times over while their results are written.
		"largest limit": {largest, 512 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			w := f.start("w1", 2)
			document := program(t, flood, map[string]any{"limits": map[string]any{"output_bytes": c.outputBytes}})
			var ids []string
			for range 4 {
				ids = append(ids, f.submit(t, document))
			}
			for _, id := range ids {
				r := f.result(t, id)
				if r.Status != job.StatusOutputLimit || len(r.Stdout) > c.outputBytes || len(r.Stderr) > c.outputBytes {
					t.Errorf("got status %s with %d and %d bytes of output, want output_limit with at most %d each", r.Status, len(r.Stdout), len(r.Stderr), c.outputBytes)
				}
			}
			got := w.peakMemory(t)
			t.Logf("peak memory of the worker: %d MiB", got>>20)
			if got > c.mostMemory {
				t.Errorf("got a peak memory of %d bytes, want at most %d", got, c.mostMemory)
			}
		})
	}
}

// flood writes a gigabyte to each of its streams, side by side.
const flood = `import os, threading
block = b"flood " * 10_000
def write(stream):
    for _ in range((1 << 30) // len(block)):
        os.write(stream, block)
other = threading.Thread(target=write, args=(2,))
other.start()
write(1)
other.join()
`
