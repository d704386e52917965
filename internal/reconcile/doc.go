// Package reconcile keeps the ledger and the queue in agreement: a job that is
// queued in the ledger and has no task gets one, and a job whose worker is gone
// is taken away from it and delivered again.
//
// Every worker runs a Reconciler; a lock in Redis lets one of them work. A worker that is
// killed is noticed within about the ledger's StaleAfter plus a second, whether or not it held the lock.
//
// What it does is safe at any time, also when two reconcilers believe to hold the lock: the
// ledger's scripts check again before they change anything.
package reconcile
