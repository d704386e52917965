package pool

import (
	"slices"
	"time"
)

// offer gives a unit of the class to the first request it serves, or to the stock.
func (k *keeper) offer(u *unit) {
	switch {
	case k.draining:
		k.discard(u, discardDrained)
	case u.generation != k.generation:
		k.discard(u, discardRecycled)
	case u.dead():
		k.discard(u, discardDied)
	default:
		for _, r := range k.waiting {
			if r.stock {
				k.forget(r)
				k.grant(r, grant{unit: u, how: takenCold})
				return
			}
		}
		k.keep(u)
	}
}

// keep puts a unit into the stock, in the order of age, and watches it.
func (k *keeper) keep(u *unit) {
	at := 0
	for at < len(k.warm) && k.warm[at].expires.Before(u.expires) {
		at++
	}
	k.warm = slices.Insert(k.warm, at, u)
	w, ok := u.box.(Watcher)
	if !ok {
		return
	}
	died, unwatch := w.Done(), make(chan struct{})
	u.unwatch = unwatch
	k.wg.Go(func() {
		select {
		case <-died:
		case <-unwatch:
			return
		}
		select {
		case k.pool.inbox <- func(k *keeper, _ time.Time) { k.died(u) }:
		case <-unwatch:
		}
	})
}

// takeWarm takes the oldest unit out of the stock, which must not be empty.
func (k *keeper) takeWarm() *unit {
	u := k.warm[0]
	k.unstock(u)
	return u
}

// unstock takes u out of the stock; false when it was not there.
func (k *keeper) unstock(u *unit) bool {
	i := slices.Index(k.warm, u)
	if i < 0 {
		return false
	}
	k.warm = slices.Delete(k.warm, i, i+1)
	if u.unwatch != nil {
		close(u.unwatch)
		u.unwatch = nil
	}
	return true
}

// died removes a unit that has ended while it waited.
func (k *keeper) died(u *unit) {
	if k.unstock(u) {
		k.discard(u, discardDied)
	}
}
