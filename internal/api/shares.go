package api

import "sync"

// shares parts a bounded good, such as memory, among those who ask for it: nobody gets more than each, so that one who takes all
// they can leaves something to the others. It is safe for concurrent use.
type shares struct {
	total, each int64

	mu     sync.Mutex
	used   int64
	byName map[string]int64
}

func newShares(total, each int64) *shares {
	return &shares{total: total, each: each, byName: map[string]int64{}}
}

// take takes n for name, or nothing when there is not so much left. What was taken is given back by give.
func (s *shares) take(name string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+n > s.total || s.byName[name]+n > s.each {
		return false
	}
	s.used += n
	s.byName[name] += n
	return true
}

func (s *shares) give(name string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
	if s.byName[name] -= n; s.byName[name] == 0 {
		delete(s.byName, name)
	}
}

// taken is how much is taken by all together.
func (s *shares) taken() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}
