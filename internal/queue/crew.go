package queue

import "sync"

// crew calls functions on goroutines that stay for the next call. asynq starts a goroutine for each task; a handler needs a
// deep stack, which a new goroutine grows in steps, and copies each time. Safe for concurrent use.
type crew struct {
	work chan func()
	quit chan struct{}
	wg   sync.WaitGroup
}

func newCrew() *crew { return &crew{work: make(chan func()), quit: make(chan struct{})} }

// do calls f and waits for it.
func (c *crew) do(f func()) {
	done := make(chan struct{})
	call := func() {
		defer close(done)
		f()
	}
	select {
	case c.work <- call: // somebody was free
	default:
		c.wg.Go(func() { c.serve(call) })
	}
	<-done
}

// serve makes one call, and others until the crew is dismissed.
func (c *crew) serve(call func()) {
	for {
		call()
		select {
		case call = <-c.work:
		case <-c.quit:
			return
		}
	}
}

// dismiss ends the goroutines that are free, and the others when they are. It is called once.
func (c *crew) dismiss() { close(c.quit) }

// wait waits for all to end.
func (c *crew) wait() { c.wg.Wait() }
