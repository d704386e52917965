package pool

import (
	"time"

	"go.uber.org/zap"
)

// discard removes a unit that no job has used.
func (k *keeper) discard(u *unit, reason string) {
	k.pool.metrics.discarded.WithLabelValues(reason).Inc()
	if reason == discardDied {
		k.pool.log.Warn("waiting sandbox died")
	}
	k.remove(u)
}

// remove closes a unit in the background; its slot stays taken until that is done.
func (k *keeper) remove(u *unit) {
	k.closing++
	k.wg.Go(func() {
		err := u.box.Close()
		k.pool.inbox <- func(k *keeper, now time.Time) { k.removed(u, err, now) }
	})
}

// removed takes the end of a removal.
func (k *keeper) removed(u *unit, err error, now time.Time) {
	k.closing--
	if err == nil {
		if u.tries > 0 {
			k.pool.log.Info("sandbox left quarantine", zap.Int("tries", u.tries))
		}
		u.settle(nil)
		return
	}
	u.tries++
	if k.warden != nil {
		u.settle(err) // from here on it is the warden who knows
	} else {
		u.retryAt = now.Add(pause(u.tries, k.cfg.MinRetry, k.cfg.MaxRetry))
		k.quarantined[u] = struct{}{}
	}
	k.pool.log.Error("sandbox in quarantine: its removal could not be proven",
		zap.Int("tries", u.tries), zap.Error(err))
}

// lost is how many slots are taken by sandboxes in quarantine.
func (k *keeper) lost() int {
	if k.warden != nil {
		return k.warden.Quarantined()
	}
	return len(k.quarantined)
}

// recycle removes what is older than the last call of Pool.Recycle.
func (k *keeper) recycle() {
	generation := k.pool.generation.Load()
	if generation == k.generation {
		return
	}
	k.generation = generation
	k.stock = 0
	for len(k.warm) > 0 {
		k.discard(k.takeWarm(), discardRecycled)
	}
}

// drain stops all that is not a running job.
func (k *keeper) drain(now time.Time) {
	k.draining = true
	k.drainEnd = now.Add(k.cfg.DrainTimeout)
	for len(k.waiting) > 0 {
		k.fail(k.waiting[0], ErrStopped)
	}
	for len(k.warm) > 0 {
		k.discard(k.takeWarm(), discardDrained)
	}
}

// due does what the time has come for.
func (k *keeper) due(now time.Time) {
	for len(k.warm) > 0 && !now.Before(k.warm[0].expires) {
		k.discard(k.takeWarm(), discardAged)
	}
	if k.draining {
		if !now.Before(k.drainEnd) {
			for u := range k.leased {
				delete(k.leased, u)
				k.remove(u)
			}
		}
		return
	}
	for u := range k.quarantined {
		if !now.Before(u.retryAt) {
			delete(k.quarantined, u)
			k.remove(u)
		}
	}
}

// nextDue is when there is something to do though nothing happens; zero when
// nothing is ahead.
func (k *keeper) nextDue(now time.Time) (at time.Time) {
	if len(k.warm) > 0 {
		at = k.warm[0].expires
	}
	switch {
	case k.draining && len(k.leased) > 0:
		at = earliest(at, k.drainEnd)
	case k.draining:
	case k.warden != nil && k.lost() > 0:
		at = earliest(at, now.Add(k.cfg.MinRetry)) // a slot may have come free
	default:
		for u := range k.quarantined {
			at = earliest(at, u.retryAt)
		}
	}
	return at
}
