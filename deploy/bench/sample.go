package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// sample is a number of measured times.
type sample []time.Duration

// quantile returns the smallest time that a share q of the sample does not exceed, in milliseconds.
func (s sample) quantile(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return millis(sorted[min(max(i, 0), len(sorted)-1)])
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// times is what the report says of a sample, in milliseconds.
type times struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Min float64 `json:"min"`
	N   int     `json:"n"`
}

func (s sample) times() times {
	return times{P50: round(s.quantile(0.5)), P95: round(s.quantile(0.95)), P99: round(s.quantile(0.99)), Min: round(s.quantile(0)), N: len(s)}
}

// round keeps three decimals: more are noise.
func round(x float64) float64 { return math.Round(x*1000) / 1000 }

// contender is one of several things that are measured in turns.
type contender struct {
	name string
	// every is in which rounds it takes part: each, every second one, ….
	every int
	// ready waits until nothing of it is under way.
	ready func(ctx context.Context) error
	// once does it once.
	once func(ctx context.Context) (time.Duration, error)
	took sample
}

// interleave measures the contenders in turns, in an order that changes with each round. Before each
// measurement all of them are ready, so none is measured while another cleans up.
func interleave(ctx context.Context, rounds int, all []*contender) error {
	const calm = 15 * time.Millisecond // for what nobody tells the end of
	for n := range rounds {
		for _, i := range rand.Perm(len(all)) {
			c := all[i]
			if n%c.every != 0 {
				continue
			}
			for _, other := range all {
				if err := other.ready(ctx); err != nil {
					return fmt.Errorf("%s: %w", other.name, err)
				}
			}
			if err := pause(ctx, calm); err != nil {
				return err
			}
			took, err := c.once(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			c.took = append(c.took, took)
		}
	}
	return nil
}

// always is the ready of what leaves nothing behind.
func always(context.Context) error { return nil }

// pause waits for d.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
