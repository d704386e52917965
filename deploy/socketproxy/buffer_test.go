package main

import (
	"bytes"
	"sync"
)

// safeBuffer may be written and read at the same time.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write takes a part of the text.
func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String is the text so far.
func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
