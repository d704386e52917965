//go:build linux

package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/execra/tracefleet/internal/wire"
)

// traceMemory is the memory that the tracer writes. The supervisor only ever
// reads it with pread: a mapping would fault if the program could shrink it.
type traceMemory struct {
	fd    int
	areas [wire.AreaCount]wire.Area
}

// newTraceMemory makes an empty memory, to be sized when the job is known.
func newTraceMemory() (*traceMemory, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("trace", flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // a kernel before 6.3 and gVisor do not know it
		fd, err = unix.MemfdCreate("trace", flags)
	}
	if err != nil {
		return nil, fmt.Errorf("make the trace memory: %w", err)
	}
	return &traceMemory{fd: fd}, nil
}

// size gives the memory the layout for traceBytes and seals it, so that the
// program can change its content but neither its size nor the seals. It
// returns the size.
func (m *traceMemory) size(traceBytes int64) (int64, error) {
	areas, size := wire.MemoryLayout(traceBytes)
	if err := unix.Ftruncate(m.fd, size); err != nil {
		return 0, fmt.Errorf("size the trace memory: %w", err)
	}
	if _, err := unix.FcntlInt(uintptr(m.fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return 0, fmt.Errorf("seal the trace memory: %w", err)
	}
	m.areas = areas
	return size, nil
}

// farewell returns what the interpreter has said in leaving, if it has. A memory that cannot be read holds none:
// then the end itself is waited for.
func (m *traceMemory) farewell() (wire.Farewell, bool) {
	var header [wire.MemoryHeaderSize]byte
	n, err := unix.Pread(m.fd, header[:], 0)
	if err != nil {
		return wire.Farewell{}, false
	}
	return wire.ReadFarewell(header[:n])
}

// send sends the committed bytes of every area as TRACE frames.
func (m *traceMemory) send(out *frameWriter) error {
	buf := make([]byte, wire.MaxChunk)
	n, err := unix.Pread(m.fd, buf[:wire.MemoryHeaderSize], 0)
	if err != nil {
		return fmt.Errorf("read the trace memory: %w", err)
	}
	for area, used := range wire.Committed(buf[:n], m.areas) {
		for done := int64(0); done < used; {
			buf[0] = byte(area)
			chunk := buf[1 : 1+min(int64(len(buf)-1), used-done)]
			n, err := unix.Pread(m.fd, chunk, m.areas[area].Offset+done)
			if err != nil {
				return fmt.Errorf("read the trace memory: %w", err)
			}
			if n == 0 {
				break // sealed, so it cannot happen; a short read must not loop
			}
			if err := out.send(wire.Trace, buf[:1+n]); err != nil {
				return err
			}
			done += int64(n)
		}
	}
	return nil
}
