package pool

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
)

// unit is one started sandbox and its slot.
type unit struct {
	box        sandbox.Sandbox
	generation int64
	// stock is true when it was launched with the limits of the class.
	stock   bool
	expires time.Time
	// unwatch ends the goroutine that waits for its death; nil when there is none.
	unwatch chan struct{}
	// tries and retryAt belong to the quarantine.
	tries   int
	retryAt time.Time
	// settled is true when the removal has ended as well as it will, with the error lost; then is told of it.
	settled bool
	lost    error
	then    func(error)
}

// settle ends the removal.
func (u *unit) settle(err error) {
	u.settled, u.lost = true, err
	if u.then != nil {
		u.then(err)
	}
}

// dead tells whether the sandbox is known to have died.
func (u *unit) dead() bool {
	w, ok := u.box.(Watcher)
	if !ok {
		return false
	}
	select {
	case <-w.Done():
		return true
	default:
		return false
	}
}

// request is one call of Launch that waits for a sandbox.
type request struct {
	limits job.Limits
	// adjustable is true when a sandbox of the class may be tried with changed limits, foreign when that is known to be impossible.
	adjustable, foreign bool
	// stock is true when any sandbox of the class will do. The keeper sets it.
	stock bool
	// reply gets exactly one grant, or none when the request is abandoned first.
	reply chan grant
	// granted is the unit in reply, for when nobody comes to read it.
	granted *unit
	// cancel ends the launch that was made for this request; nil when there is none.
	cancel context.CancelFunc
	gone   bool
}

func newRequest(l job.Limits) *request {
	return &request{limits: l, reply: make(chan grant, 1)}
}

// grant is the answer to a request.
type grant struct {
	unit   *unit
	how    string
	adjust bool // the unit has the limits of the class and the request wants others
	err    error
}

// lease makes the grant usable by a job; nil when there is no unit.
func (g grant) lease(p *Pool) sandbox.Sandbox {
	if g.unit == nil {
		return nil
	}
	return &lease{pool: p, unit: g.unit}
}

// keeper is the state of a running pool. Only the goroutine of Pool.Run touches
// it; the goroutines it starts talk to it through Pool.inbox.
type keeper struct {
	pool *Pool
	cfg  Config
	wg   sync.WaitGroup

	// class is what the stock is launched with. other is what as many jobs in a row as foreign wanted instead.
	class, other job.Limits
	foreign      int

	waiting []*request // oldest first
	warm    []*unit    // oldest first
	leased  map[*unit]struct{}
	closing int
	// The launcher keeps count of the quarantine, or we do.
	warden      Warden
	quarantined map[*unit]struct{}
	// launching counts all launches under way, stock those that will serve
	// any request of the class.
	launching, stock int
	generation       int64

	tuner *tuner
	// failures counts the failed attempts in a row; until retryAt there is no
	// other. An attempt that began in an older epoch than the present one says nothing new.
	failures int
	retryAt  time.Time
	epoch    int
	// quietUntil is when a refill put off for a running job begins; zero when none is.
	quietUntil time.Time

	draining bool
	drainEnd time.Time
}

func newKeeper(p *Pool) *keeper {
	warden, _ := p.launcher.(Warden)
	return &keeper{
		pool: p, cfg: p.cfg, class: p.cfg.Class, generation: p.generation.Load(), warden: warden,
		leased: map[*unit]struct{}{}, quarantined: map[*unit]struct{}{},
		tuner: newTuner(firstLaunching(runtime.GOMAXPROCS(0)), p.cfg.MaxLaunching),
	}
}

// used is how many slots are taken.
func (k *keeper) used() int {
	return k.launching + len(k.warm) + len(k.leased) + k.closing + k.lost()
}

// empty tells whether nothing is left that Run must wait for.
func (k *keeper) empty() bool { return k.launching+len(k.warm)+len(k.leased)+k.closing == 0 }

// refresh removes what is too old to be handed out, by age or by generation,
// and returns the time. It comes before every message.
func (k *keeper) refresh() time.Time {
	now := time.Now()
	k.recycle()
	k.due(now)
	return now
}

// arrive takes a new request.
func (k *keeper) arrive(r *request, now time.Time) {
	if k.draining {
		r.reply <- grant{err: ErrStopped}
		return
	}
	k.place(r)
	if r.stock || r.adjustable {
		for len(k.warm) > 0 {
			u := k.takeWarm()
			_, canAdjust := u.box.(Adjuster)
			switch {
			case u.dead():
				k.discard(u, discardDied)
				continue
			case r.stock:
				k.grant(r, grant{unit: u, how: takenWarm})
			case canAdjust:
				k.grant(r, grant{unit: u, how: takenAdjusted, adjust: true})
			default:
				k.keep(u)
				r.foreign = true
				k.line(r)
				return
			}
			if k.quietUntil.IsZero() && k.cfg.Quiet > 0 {
				k.quietUntil = now.Add(k.cfg.Quiet)
			}
			return
		}
	}
	k.line(r)
}

// line puts r at the end of those that wait.
func (k *keeper) line(r *request) {
	if r.foreign {
		k.learn(r.limits)
		k.place(r)
	}
	k.waiting = append(k.waiting, r)
}

// grant answers r with a unit, which is then leased.
func (k *keeper) grant(r *request, g grant) {
	k.leased[g.unit] = struct{}{}
	r.granted = g.unit
	r.reply <- g
}

// fail answers r with an error.
func (k *keeper) fail(r *request, err error) {
	k.forget(r)
	r.reply <- grant{err: err}
}

// forget takes r off the list of those that wait; false when it was not on it.
func (k *keeper) forget(r *request) bool {
	i := slices.Index(k.waiting, r)
	if i < 0 {
		return false
	}
	k.waiting = slices.Delete(k.waiting, i, i+1)
	return true
}

// abandon undoes r, whose caller waits no longer.
func (k *keeper) abandon(r *request) {
	switch {
	case k.forget(r):
		r.gone = true
		if r.cancel != nil {
			r.cancel()
		}
	case r.granted != nil && r.granted.stock:
		k.putBack(r.granted)
	case r.granted != nil:
		k.spoil(r.granted, discardAbandoned)
	}
}

// putBack makes a leased unit that was not touched available again.
func (k *keeper) putBack(u *unit) {
	if _, ok := k.leased[u]; !ok {
		return
	}
	delete(k.leased, u)
	k.offer(u)
}

// spoil removes a leased unit that was never used.
func (k *keeper) spoil(u *unit, reason string) {
	if _, ok := k.leased[u]; !ok {
		return
	}
	delete(k.leased, u)
	k.discard(u, reason)
}

// returned removes a unit whose job is done. then, which may be nil, is told the end of the removal.
func (k *keeper) returned(u *unit, then func(error)) {
	u.then = then
	if _, ok := k.leased[u]; !ok { // killed at the end of the drain
		if u.settled && then != nil {
			then(u.lost)
		}
		return
	}
	delete(k.leased, u)
	k.remove(u)
}

// earliest returns the earlier of two times, of which a zero one does not count.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// report publishes the gauges.
func (k *keeper) report() {
	m := k.pool.metrics
	for state, n := range map[string]int{
		stateLaunching: k.launching, stateWarm: len(k.warm), stateRunning: len(k.leased),
		stateClosing: k.closing, stateQuarantined: k.lost(),
	} {
		m.sandboxes.WithLabelValues(state).Set(float64(n))
	}
	m.waiting.Set(float64(len(k.waiting)))
	m.parallelism.Set(float64(k.tuner.limit))
}
