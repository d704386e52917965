package pool_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox/pool"
)

// Jobs that all want the same other limits find sandboxes with those after a while, and jobs with
// the usual ones get the stock back.
func TestStockLearnsTheLimitsOfABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.adjust = func(job.Limits) error { return errors.ErrUnsupported }
		f := setup(t, e, pool.Config{Concurrency: 5})
		for turn, l := range []job.Limits{withMemory(64 << 20), job.DefaultLimits()} {
			for n := range 6 {
				await(time.Second)
				box, waited := f.take(l)
				want := 100 * time.Millisecond
				if n == 5 {
					want = 0
				}
				if waited != want {
					t.Errorf("turn %d: job %d waited %v, want %v", turn, n, waited, want)
				}
				if _, err := box.Run(t.Context(), jobWith(l, time.Millisecond)); err != nil {
					t.Errorf("turn %d: run: %v", turn, err)
				}
				_ = box.Close()
			}
		}
		f.wantTaken("warm", 2)
	})
}

// A job that stands alone with its limits leaves the stock as it is, however often it comes.
func TestStockKeepsTheLimitsOfAMixture(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		others []job.Limits
		adjust error
	}{
		"now and then":       {[]job.Limits{withMemory(64 << 20), withMemory(64 << 20), withMemory(64 << 20), job.DefaultLimits()}, errors.ErrUnsupported},
		"ever other limits":  {[]job.Limits{withMemory(64 << 20), withMemory(96 << 20)}, errors.ErrUnsupported},
		"can be adjusted to": {[]job.Limits{withMemory(64 << 20)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEngine()
				e.adjust = func(job.Limits) error { return tt.adjust }
				f := setup(t, e, pool.Config{Concurrency: 2})
				for n := range 40 {
					await(time.Second)
					box, _ := f.take(tt.others[n%len(tt.others)])
					_ = box.Close()
				}
				await(time.Second)
				f.wantDiscarded("recycled", 0)
				if _, waited := f.take(job.DefaultLimits()); waited != 0 {
					t.Errorf("a job with the usual limits waited %v, want a warm sandbox", waited)
				}
			})
		})
	}
}
