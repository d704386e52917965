package api

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Requests with a wrong token that one address may send.
const (
	failuresPerSecond = 1
	failuresAtOnce    = 10
)

// maxLimiters bounds the names that are remembered; then those that were idle are forgotten.
const maxLimiters = 10_000

// limiters keeps one rate limit for each name. It is safe for concurrent use.
type limiters struct {
	perSecond rate.Limit
	burst     int

	mu     sync.Mutex
	byName map[string]*rate.Limiter
}

func newLimiters(perSecond float64, burst int) *limiters {
	return &limiters{perSecond: rate.Limit(perSecond), burst: burst, byName: map[string]*rate.Limiter{}}
}

// allow takes one request of name into account; when it is one too many, it says when to come again.
func (l *limiters) allow(name string, now time.Time) (retryAfter time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.byName[name]
	if limiter == nil {
		if len(l.byName) >= maxLimiters {
			l.forget(now)
		}
		limiter = rate.NewLimiter(l.perSecond, l.burst)
		l.byName[name] = limiter
	}
	reservation := limiter.ReserveN(now, 1)
	if delay := reservation.DelayFrom(now); delay > 0 {
		reservation.CancelAt(now)
		return max(delay, retryLimited), false
	}
	return 0, true
}

// forget drops those whose burst is whole again: a new limiter would be the same. l.mu is held.
func (l *limiters) forget(now time.Time) {
	for name, limiter := range l.byName {
		if limiter.TokensAt(now) >= float64(l.burst) {
			delete(l.byName, name)
		}
	}
	if len(l.byName) >= maxLimiters {
		l.byName = map[string]*rate.Limiter{}
	}
}
