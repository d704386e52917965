package queue

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// slots bounds how many handlers run. asynq has a bound of its own, but gives a
// slot away when it loses interest in a task whose handler still runs.
type slots struct {
	tokens chan struct{} // as many as there are slots; a token in it is a slot in use
	freed  chan struct{} // told when a slot became free
	used   prometheus.Gauge
	// lost is how many slots are taken by nobody.
	lost func() int
	// given counts the tasks that asynq was given and that have not come back. One that asynq loses on the way would
	// be counted for ever, so it decides about nothing but how many are fetched at once.
	given atomic.Int64
}

func newSlots(n int, lost func() int, m *Metrics) *slots {
	m.slots.Set(float64(n))
	return &slots{tokens: make(chan struct{}, n), freed: make(chan struct{}, 1), used: m.slotsUsed, lost: lost}
}

func (s *slots) free() bool { return len(s.tokens)+s.lost() < cap(s.tokens) }

// open is how many more tasks asynq may be given; less than 1 when that is not known.
func (s *slots) open() int { return cap(s.tokens) - s.lost() - int(s.given.Load()) }

// acquire takes a slot. It waits for one for at most d, and until ctx ends.
func (s *slots) acquire(ctx context.Context, d time.Duration) bool {
	select {
	case s.tokens <- struct{}{}:
		s.used.Inc()
		return true
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case s.tokens <- struct{}{}:
		s.used.Inc()
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (s *slots) release() {
	<-s.tokens
	s.used.Dec()
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

func (s *slots) inUse() int { return len(s.tokens) }

// waitFree waits until a slot is free, for at most d, or until stop is closed, and tells whether one is free.
func (s *slots) waitFree(stop <-chan struct{}, d time.Duration) bool {
	if s.free() {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-s.freed:
			if s.free() {
				return true
			}
		case <-timer.C:
			return s.free()
		case <-stop:
			return false
		}
	}
}

// waitIdle waits until no slot is in use. It tells false when ctx ends before.
func (s *slots) waitIdle(ctx context.Context) bool {
	for taken := 0; ; taken++ {
		if taken == cap(s.tokens) {
			for range taken {
				<-s.tokens
			}
			return true
		}
		select {
		case s.tokens <- struct{}{}:
		case <-ctx.Done():
			for range taken {
				<-s.tokens
			}
			return false
		}
	}
}
