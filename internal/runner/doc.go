// Package runner runs one delivered job from claim to stored result.
//
// # A delivery
//
//	claim (fence) -> input -> limits -> launch -> run -> classify -> fit -> finish
//
// Whatever the program does, the delivery ends in a stored result and no error. An error means that the
// platform failed; it carries a class of package queue, by which the queue tries again, and the
// job has been released in the ledger for that, or, after the last attempt, buried there as a dead letter with a
// system_error result. What nobody can ever run (a damaged entry, input or payload, limits above this
// worker's) becomes a rejected result at once.
//
// # Time
//
// The context of a delivery ends only when the worker drains. Then, and when a user cancels or
// the claim is lost, the program is killed: a canceled job keeps what it did until then, a drained one is
// released uncounted, and of a lost one nothing is stored, because it is somebody else's by now. Results are stored under a
// context of their own, again and again for Config.StoreTimeout, so that a short loss of Redis costs no work.
//
// # Sandboxes
//
// A sandbox is closed from the moment its run has ended, beside the storing of the result, and Handle
// returns when both are done. What Close waits for is the launcher's matter: over the engine alone it is the proof
// that the sandbox is gone; a pool removes in the background. There the sandbox keeps its slot in the pool and its share
// of the memory budget, not its delivery, until it is proven gone. One in quarantine is left to the launcher, which goes on
// trying and counts it.
package runner
