package queue

import (
	"sync"
	"time"
)

// basket holds tasks that were fetched and that asynq has not got yet. In Redis they are active, so none may be left
// behind when the worker goes: it would not run before its lease is over. Safe for concurrent use.
type basket struct {
	stop <-chan struct{}

	mu      sync.Mutex
	tasks   []string
	filling bool
	emptied chan struct{} // told when nothing is in it and nothing is to come
}

func newBasket(stop <-chan struct{}) *basket {
	return &basket{stop: stop, emptied: make(chan struct{}, 1)}
}

// take takes a task out.
func (b *basket) take() (task string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.tasks) == 0 {
		return "", false
	}
	task, b.tasks = b.tasks[0], b.tasks[1:]
	b.tell()
	return task, true
}

// open says that tasks may come. It tells false when none may be fetched any more.
func (b *basket) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.stop:
		return false
	default:
	}
	b.filling = true
	return true
}

// put puts tasks in.
func (b *basket) put(tasks []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks = append(b.tasks, tasks...)
}

// close says that no more tasks come for now.
func (b *basket) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.filling = false
	b.tell()
}

// tell is called with mu held.
func (b *basket) tell() {
	if len(b.tasks) > 0 || b.filling {
		return
	}
	select {
	case b.emptied <- struct{}{}:
	default:
	}
}

// waitEmpty waits until nothing is in it and nothing is to come, for at most d, and tells whether that is so. It is called after stop was closed.
func (b *basket) waitEmpty(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		b.mu.Lock()
		empty := len(b.tasks) == 0 && !b.filling
		b.mu.Unlock()
		if empty {
			return true
		}
		select {
		case <-b.emptied:
		case <-timer.C:
			return false
		}
	}
}
