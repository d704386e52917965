//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/execra/tracefleet/internal/wire"
)

// maxHeld bounds the frames that are held back: as much as goes into a pipe at once.
const maxHeld = 64 << 10

// frameWriter sends frames one at a time. It is safe for concurrent use. The
// lock is held over the write on purpose: frames must not mix, and a worker
// that does not read must stop the program's output, not fill our memory.
type frameWriter struct {
	mu sync.Mutex
	w  io.Writer
	// holding is true when small frames are collected in held. Each write on its own passes through two
	// more processes on its way to the worker.
	holding bool
	held    bytes.Buffer
}

// newFrameWriter makes a frameWriter with its buffer in place, so that nothing is left to
// allocate when memory is short.
func newFrameWriter(w io.Writer) *frameWriter {
	f := &frameWriter{w: w}
	_, _ = f.held.Write(make([]byte, maxHeld)) // never fails; it touches every page
	f.held.Reset()
	return f
}

// send writes one frame.
func (f *frameWriter) send(t wire.Type, payload []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holding && wire.HeaderSize+len(payload) <= maxHeld-f.held.Len() {
		return wire.WriteFrame(&f.held, t, payload)
	}
	if err := f.writeHeld(); err != nil {
		return err
	}
	return wire.WriteFrame(f.w, t, payload)
}

// hold has frames collected from now on, for when more are about to follow; flush sends them.
func (f *frameWriter) hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holding = true
}

// flush sends what is held back.
func (f *frameWriter) flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writeHeld()
}

func (f *frameWriter) writeHeld() error {
	if f.held.Len() == 0 {
		return nil
	}
	defer f.held.Reset()
	if _, err := f.w.Write(f.held.Bytes()); err != nil {
		return fmt.Errorf("write frames: %w", err)
	}
	return nil
}

// sendJSON writes one frame with v as its payload, and what was held back.
func (f *frameWriter) sendJSON(t wire.Type, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %q frame: %w", byte(t), err)
	}
	return errors.Join(f.send(t, payload), f.flush())
}
