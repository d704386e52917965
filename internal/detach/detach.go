// Package detach makes contexts for work that must go on after the caller's
// context is done: cleaning up after a timeout, storing the result of a job whose
// delivery was cancelled. Such work keeps the values of the old context, such as
// trace ids, loses its cancellation, and gets a deadline of its own.
package detach

import (
	"context"
	"time"
)

// Context returns a context with the values of ctx, without its cancellation or
// deadline, that ends after d. Make a fresh one for each piece of work: one that is shared is
// used up by the first. The caller calls the CancelFunc when the work is done.
func Context(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}
