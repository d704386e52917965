package pool

import "time"

// How the tuner weighs what it measures.
const (
	// windowPerSlot times the parallelism is how many launches a measurement
	// takes: launches that run at once tend to end together, and a whole number of
	// such bursts is counted right.
	windowPerSlot = 5
	// smoothing is the weight of a new measurement against the older ones.
	smoothing = 0.4
	// worthMoving is how much better another parallelism must be to move there.
	worthMoving = 1.05
	// nearBest is how near to the best rate counts as as good.
	nearBest = 0.97
	// After a change the first neighbour is tried after firstRest
	// measurements; each trial that changes nothing doubles the pause, up to lastRest.
	firstRest = 1
	lastRest  = 32
)

// tuner finds how many launches at once give the most launches per second.
// It keeps a smoothed rate for each parallelism tried, stands at one, and tries the
// neighbours above and below in turn. It moves when another has been clearly
// better, and then to the smallest that is near the best: more at once than needed
// makes each launch slower. Old rates of distant parallelisms may be wrong by
// now; moving there measures them again.
//
// Only time in which the parallelism was fully used counts. It is not safe for
// concurrent use.
type tuner struct {
	limit int       // launches allowed now
	home  int       // best so far; limit differs from it only during a trial
	rates []float64 // launches per second by parallelism; 0 unknown; index 0 unused

	skip  int // launches to wait for until those started under the former limit are done
	since time.Time
	count int // launches in the running measurement; meaningful when since is set

	rest, left int  // measurements at home between trials, and until the next
	up         bool // where the next trial goes
}

// firstLaunching is with how many launches at once a pool starts: a launch waits a good part of its time, for the kernel, the
// disk and the interpreter in its container. With two for each processor a full queue got 5 % more done than with one, and with three
// less again (two processors, in turns; docs/benchmarks.md).
func firstLaunching(processors int) int { return 2 * processors }

// newTuner returns a tuner for parallelisms from 1 to most that starts at start.
func newTuner(start, most int) *tuner {
	start = min(max(1, start), most)
	return &tuner{limit: start, home: start, rates: make([]float64, most+1), rest: firstRest, left: firstRest, up: true}
}

// slack says that fewer launches than allowed are under way: what was
// being measured says nothing.
func (t *tuner) slack() { t.since = time.Time{} }

// launched says that a launch has succeeded at now.
func (t *tuner) launched(now time.Time) {
	switch {
	case t.skip > 0:
		t.skip--
		t.slack()
	case t.since.IsZero():
		t.since, t.count = now, 0
	default:
		t.count++
		if took := now.Sub(t.since); t.count >= windowPerSlot*t.limit && took > 0 {
			t.measured(float64(t.count) / took.Seconds())
			t.since, t.count = now, 0
		}
	}
}

// measured takes the rate of one full measurement at the present limit and
// decides where to go.
func (t *tuner) measured(rate float64) {
	if old := t.rates[t.limit]; old > 0 {
		rate = old + smoothing*(rate-old)
	}
	t.rates[t.limit] = rate

	trial := t.limit != t.home
	home := t.better()
	switch {
	case home != t.home:
		t.up = home > t.home
		t.home, t.rest, t.left = home, firstRest, firstRest
		if home == t.limit {
			t.left = 0 // just measured: go on in the direction that was better
		}
	case trial:
		t.rest = min(2*t.rest, lastRest)
		t.left = t.rest
		t.up = !t.up
	default:
		t.left--
	}
	next := t.home
	if t.left <= 0 {
		next = t.neighbour()
	}
	t.move(next)
}

// better returns the parallelism to stand at, given all rates.
func (t *tuner) better() int {
	best := t.home
	for n, rate := range t.rates {
		if rate > t.rates[best] {
			best = n
		}
	}
	if t.rates[best] >= worthMoving*t.rates[t.home] {
		for n, rate := range t.rates {
			if rate >= nearBest*t.rates[best] {
				return n
			}
		}
	}
	if t.home > 1 && t.rates[t.home-1] >= t.rates[t.home] {
		return t.home - 1
	}
	return t.home
}

// neighbour returns the next parallelism to try; home when there is no other.
func (t *tuner) neighbour() int {
	up, down := t.home+1, t.home-1
	switch {
	case up < len(t.rates) && (t.up || down < 1):
		t.up = true
		return up
	case down >= 1:
		t.up = false
		return down
	}
	return t.home
}

func (t *tuner) move(limit int) {
	if limit == t.limit {
		return
	}
	t.skip = t.limit
	t.limit = limit
	t.slack()
}
