package pool

import (
	"math/rand/v2"
	"time"
)

// pause returns the pause after n failures in a row, n from 1: it doubles from
// least to most, and up to a quarter is taken off at random, so that workers that
// share an engine do not come back together.
func pause(n int, least, most time.Duration) time.Duration {
	d := least
	for range n - 1 {
		if d >= most {
			break
		}
		d *= 2
	}
	return early(min(d, most))
}

// early takes up to a quarter off d at random.
func early(d time.Duration) time.Duration { return d - rand.N(d/4+1) }
