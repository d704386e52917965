package pool

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/sandbox"
)

// schedule starts the launches that are wanted and possible now. It returns when
// to look again though nothing may happen before; zero when only an event can
// change anything.
func (k *keeper) schedule(ctx context.Context, now time.Time) (again time.Time) {
	for !k.draining {
		next, wanted := k.wanted()
		if !wanted {
			k.quietUntil = time.Time{}
			break
		}
		if k.failures > 0 {
			if now.Before(k.retryAt) {
				again = k.retryAt
				break
			}
			if k.launching > 0 {
				break // one attempt at a time until one succeeds
			}
		}
		if k.launching >= k.tuner.limit {
			return time.Time{} // fully used: the tuner's clock runs on
		}
		if next == nil && k.quiet(now) {
			again = k.quietUntil
			break
		}
		if k.used() >= k.cfg.Slots {
			if next != nil {
				k.evict()
			}
			break
		}
		k.quietUntil = time.Time{}
		k.launch(ctx, next)
	}
	k.tuner.slack()
	return again
}

// wanted tells whether one more launch is wanted, and for which request; nil
// means one with the limits of the class, for whoever waits or for the stock.
func (k *keeper) wanted() (*request, bool) {
	uncovered := k.stock
	for _, r := range k.waiting {
		switch {
		case !r.stock && r.cancel == nil:
			return r, true
		case r.stock && uncovered == 0:
			return nil, true
		case r.stock:
			uncovered--
		}
	}
	// What is left of the launches under way will be stock.
	return nil, len(k.warm)+uncovered < k.cfg.keep()
}

// quiet tells whether refilling is put off: a job runs, and the next one would
// find a sandbox all the same.
func (k *keeper) quiet(now time.Time) bool {
	return now.Before(k.quietUntil) && len(k.leased) > 0 && len(k.warm) > 0
}

// evict removes waiting sandboxes for requests that need a launch of their own,
// as far as slots are not coming free already.
func (k *keeper) evict() {
	need := -k.closing
	for _, r := range k.waiting {
		if !r.stock && r.cancel == nil {
			need++
		}
	}
	for ; need > 0 && len(k.warm) > 0; need-- {
		k.discard(k.takeWarm(), discardEvicted)
	}
}

// launch starts one sandbox in the background: for r, or of the class when r is nil.
func (k *keeper) launch(ctx context.Context, r *request) {
	ctx, cancel := context.WithTimeoutCause(ctx, k.cfg.LaunchTimeout, errLaunchTimeout)
	a := &attempt{request: r, generation: k.generation, epoch: k.epoch}
	limits := k.class
	k.launching++
	if r == nil {
		k.stock++
	} else {
		limits, r.cancel = r.limits, cancel
	}
	k.wg.Go(func() {
		defer cancel()
		began := time.Now()
		a.box, a.err = k.pool.launcher.Launch(ctx, limits)
		a.took = time.Since(began)
		if a.err != nil && errors.Is(context.Cause(ctx), errLaunchTimeout) {
			a.err = errors.Join(errLaunchTimeout, a.err)
		}
		k.pool.inbox <- func(k *keeper, now time.Time) { k.landed(a, now) }
	})
}

// attempt is one launch.
type attempt struct {
	request    *request // nil when it is for the class
	generation int64
	epoch      int
	box        sandbox.Sandbox
	err        error
	took       time.Duration
}

// landed takes the end of a launch.
func (k *keeper) landed(a *attempt, now time.Time) {
	k.launching--
	r := a.request
	switch {
	case r != nil:
		r.cancel = nil
	case a.generation == k.generation:
		k.stock--
	}
	if a.err != nil {
		k.missed(a, now)
		return
	}
	k.failures = 0
	k.pool.failure.Store(nil)
	k.tuner.launched(now)
	k.pool.metrics.launch.Observe(a.took.Seconds())
	u := &unit{
		box: a.box, generation: a.generation, stock: r == nil,
		expires: now.Add(early(k.cfg.MaxIdle)),
	}
	switch {
	case r == nil:
		k.offer(u)
	case k.draining:
		k.discard(u, discardDrained)
	case r.gone:
		k.discard(u, discardAbandoned)
	case u.generation != k.generation:
		k.discard(u, discardRecycled) // r still waits and gets another launch
	default:
		k.forget(r)
		k.grant(r, grant{unit: u, how: takenCold})
	}
}

// missed takes a failed launch: it slows down the next ones, and answers the
// job it was made for.
func (k *keeper) missed(a *attempt, now time.Time) {
	r := a.request
	if k.draining || (r != nil && r.gone) {
		return // we have canceled it
	}
	k.pool.metrics.failed.Inc()
	k.pool.failure.Store(&a.err)
	if a.epoch == k.epoch {
		k.epoch++
		k.failures++
		k.retryAt = now.Add(pause(k.failures, k.cfg.MinBackoff, k.cfg.MaxBackoff))
	}
	k.pool.log.Warn("sandbox launch failed",
		zap.Int("failures", k.failures), zap.Duration("pause", max(0, k.retryAt.Sub(now))), zap.Error(a.err))
	if r != nil {
		k.fail(r, a.err)
		return
	}
	// The launches still under way may serve as many jobs; one more is without.
	left := k.stock
	var first *request
	for _, w := range k.waiting {
		if w.stock {
			if first == nil {
				first = w
			}
			left--
		}
	}
	if first != nil && left < 0 {
		k.fail(first, a.err)
	}
}
