//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/execra/tracefleet/internal/wire"
)

// frameWriter sends frames one at a time. It is safe for concurrent use. The
// lock is held over the write on purpose: frames must not mix, and a worker
// that does not read must stop the program's output, not fill our memory.
type frameWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// send writes one frame.
func (f *frameWriter) send(t wire.Type, payload []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return wire.WriteFrame(f.w, t, payload)
}

// sendJSON writes one frame with v as its payload.
func (f *frameWriter) sendJSON(t wire.Type, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %q frame: %w", byte(t), err)
	}
	return f.send(t, payload)
}
