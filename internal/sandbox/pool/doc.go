// Package pool keeps sandboxes started and waiting before their job is known,
// so that a job pays for handing it over and running it, not for a container.
// Every sandbox is used once and thrown away.
//
// A Pool stands over any sandbox.Launcher and is one itself: Launch takes a
// waiting sandbox, or starts one when none is there. Run is what makes it
// live: it refills, watches, renews, removes, and at the end drains. All state
// belongs to the goroutine of Run; engine calls happen in goroutines that
// report back to it, so nothing is ever locked over I/O.
//
// # Slots
//
// Every sandbox takes one of Config.Slots, from the moment its launch begins
// until Close has proven that it is gone. One whose Close fails is in
// quarantine: it is reported and keeps its slot, until the launcher says that
// it is gone (see Warden) or another Close, after a growing pause, has proven it.
//
// # Order
//
// Waiting jobs are served in the order they came, and always before the stock.
// A job with the limits of the stock takes whichever sandbox is ready first. A
// job with other limits has those of a waiting sandbox adjusted when the
// sandbox can do that (see Adjuster), and else gets its own launch, for which
// a waiting sandbox is removed when no slot would come free otherwise. The stock
// learns: when several jobs in a row, as many as it holds and at least four, needed a launch of their own for the
// same limits, it is made anew with those.
//
// # Pace
//
// How many launches at once are best depends on the engine, the machine and
// its load, so the pool finds out: while there is more to launch than may be
// launched at once, it counts launches per second and moves to the smallest
// parallelism that is about as good as the best (see tuner). When the engine
// fails, attempts are made one at a time with growing pauses; each failure
// answers the job that has waited longest, the others keep waiting, so that a
// worker with a broken engine does not eat the queue.
//
// An idle pool does nothing: no goroutine polls, and the only timer is that of
// the next sandbox that gets too old.
package pool
