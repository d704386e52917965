package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// lane is a number of slots: a worker that has as many, and what was measured with it and without.
type lane struct {
	slots       int
	fleet       *fleet
	loops, jobs meter
}

// full measures (f): jobs per second while there is always a next job, for (c) and for a worker with as
// many slots, in turns, each side first in every second one. The workers are all there from the start, so that each turn meets all numbers of slots.
func (b *bench) full(ctx context.Context) error {
	if err := b.home.settle(ctx); err != nil {
		return err
	}
	lanes := make([]*lane, len(b.plan.Slots))
	for i, slots := range b.plan.Slots {
		s, err := b.startRedis(ctx)
		if err != nil {
			return err
		}
		f, err := b.startFleet(ctx, s, fleetOptions{name: fmt.Sprintf("full-%d", slots), concurrency: slots})
		if err != nil {
			return err
		}
		lanes[i] = &lane{slots: slots, fleet: f}
		if slots == restSlots {
			if err := b.rest(ctx, f); err != nil {
				return fmt.Errorf("at rest: %w", err)
			}
		}
	}
	for left := b.plan.Turns; left > 0; left-- {
		for i, l := range lanes {
			// Who comes first finds a machine that has rested.
			sides := []func(context.Context, *lane) error{b.loopTurn, b.fleetTurn}
			if (i+left)%2 == 0 {
				slices.Reverse(sides)
			}
			for _, side := range sides {
				if err := side(ctx, l); err != nil {
					return err
				}
			}
		}
	}
	for _, l := range lanes {
		b.report.full(l.slots, l.loops.rate(), l.jobs.rate())
		if err := l.fleet.stop(); err != nil {
			return err
		}
	}
	return nil
}

// loopTurn measures (c) with as many at once as the lane has slots.
func (b *bench) loopTurn(ctx context.Context, l *lane) error {
	if err := l.loops.turn(ctx, l.slots, l.slots, b.plan.Turn, func(ctx context.Context) error {
		_, err := b.bare.loop(ctx, nil)
		return err
	}); err != nil {
		return fmt.Errorf("(c) with %d at once: %w", l.slots, err)
	}
	return nil
}

// fleetTurn measures the lane's fleet, and returns when it is at rest. There are always jobs that wait. The stock was made
// before: the jobs that it serves are left out, and as many more, during which what those have used is removed.
func (b *bench) fleetTurn(ctx context.Context, l *lane) error {
	if err := l.jobs.turn(ctx, l.slots+2, 2*l.slots+1, b.plan.Turn, func(ctx context.Context) error {
		_, err := l.fleet.client.answer(ctx)
		return err
	}); err != nil {
		return fmt.Errorf("fleet with %d slots: %w", l.slots, err)
	}
	// What it makes ready or removes must not fall into another's turn.
	return l.fleet.settle(ctx)
}

// meter counts how often something ends in a second.
type meter struct {
	count int
	took  time.Duration
	// own and redis are the processor time of this process and of Redis meanwhile, where that is measured.
	own, redis time.Duration
}

// each is the share of one in a processor time, in microseconds.
func (m *meter) each(d time.Duration) float64 {
	return round(float64(d.Microseconds()) / float64(max(m.count, 1)))
}

// turn does something by so many at once for d, and for as many more as at once. The first skip ends start the clock. Those
// that end after the time is over do not count: they run beside fewer and fewer others.
func (m *meter) turn(ctx context.Context, atOnce, skip int, d time.Duration, do func(context.Context) error) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		ends  []time.Time
		first error
		over  bool
	)
	end := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		now := time.Now()
		ends = append(ends, now)
		if err != nil {
			first = err
		}
		over = err != nil || len(ends) >= skip+atOnce && now.Sub(ends[skip-1]) >= d
	}
	going := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return !over
	}
	for range atOnce {
		wg.Go(func() {
			for going() {
				end(do(ctx))
			}
		})
	}
	wg.Wait()
	if first != nil {
		return first
	}
	m.count += len(ends) - skip
	m.took += ends[len(ends)-1].Sub(ends[skip-1])
	return nil
}

func (m *meter) rate() float64 {
	if m.took <= 0 {
		return 0
	}
	return float64(m.count) / m.took.Seconds()
}
