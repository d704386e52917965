package main

import (
	"context"
	"sync"
	"sync/atomic"
)

// look is the state of a worker at rest.
type look struct {
	Jobs       int   `json:"jobs"`
	RSSBytes   int64 `json:"rss_bytes"`
	Goroutines int   `json:"goroutines"`
}

// memory measures (i): what a worker holds after more and more jobs, each time at rest.
func (b *bench) memory(ctx context.Context) error {
	s, err := b.startRedis(ctx)
	if err != nil {
		return err
	}
	f, err := b.startFleet(ctx, s, fleetOptions{name: "memory", concurrency: idleSlots})
	if err != nil {
		return err
	}
	var looks []look
	for n := 0; ; n++ {
		l, err := f.look(ctx)
		if err != nil {
			return err
		}
		l.Jobs = n * b.plan.MemoryJobs / b.plan.MemoryLooks
		looks = append(looks, l)
		if n == b.plan.MemoryLooks {
			break
		}
		if err := f.jobs(ctx, (n+1)*b.plan.MemoryJobs/b.plan.MemoryLooks-l.Jobs); err != nil {
			return err
		}
	}
	b.report.memory(looks)
	return f.stop()
}

func (f *fleet) look(ctx context.Context) (look, error) {
	if err := f.settle(ctx); err != nil {
		return look{}, err
	}
	m, err := f.metrics(ctx)
	if err != nil {
		return look{}, err
	}
	rss, err := f.residentBytes()
	return look{RSSBytes: rss, Goroutines: int(m["go_goroutines"])}, err
}

// jobs runs so many jobs, one more at once than the fleet can.
func (f *fleet) jobs(ctx context.Context, total int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var left atomic.Int64
	left.Store(int64(total))
	var wg sync.WaitGroup
	for range f.concurrency + 1 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := f.client.answer(ctx); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
