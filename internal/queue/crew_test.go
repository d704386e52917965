package queue

import (
	"sync"
	"testing"
)

// As many calls go on at once as are made: none waits for another's goroutine, not even after the crew was dismissed.
func TestCrewTakesEveryCall(t *testing.T) {
	t.Parallel()
	const calls = 16
	c := newCrew()
	together := func() {
		var all, callers sync.WaitGroup
		all.Add(calls)
		for range calls {
			callers.Go(func() {
				c.do(func() {
					all.Done()
					all.Wait() // for the others, which have to be under way
				})
			})
		}
		callers.Wait()
	}
	for range 3 { // with new goroutines, and with those that stayed
		together()
	}
	c.dismiss()
	together()
	c.wait()
}
