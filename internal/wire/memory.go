package wire

import (
	"encoding/binary"
	"math"
)

// The trace memory is a sealed memfd that the supervisor makes, the tracer
// maps shared and writes, and the supervisor reads with pread. Every byte
// committed survives any death of the program.
//
// It starts with a header page: the eight bytes of MemoryMagic, then one
// little-endian uint64 per area that counts the bytes committed to the area, then
// the three of a Farewell. The areas follow, each at a fixed offset. What the bytes of an area mean is
// between the tracer and package trace.
const (
	MemoryMagic      = "TFTRACE1"
	MemoryHeaderSize = 4096
)

// The areas of the trace memory.
const (
	// AreaEvents takes the events, head first, up to the job's trace_bytes.
	AreaEvents = iota
	// AreaDefs takes definitions of files, functions, counters and exceptions.
	AreaDefs
	// AreaCounters is an array of little-endian uint64 counters.
	AreaCounters
	// AreaEnd takes the end record.
	AreaEnd
	// AreaRing takes the last events, over and over, once AreaEvents takes no more.
	AreaRing
	// AreaNotes takes lists of what happened besides events: exceptions, effects.
	AreaNotes
	// AreaCount is how many areas there are.
	AreaCount
)

// Capacities of the areas whose size does not depend on the job, in bytes.
const (
	DefsCapacity     = 2 << 20
	CountersCapacity = 512 << 10
	EndCapacity      = 512 << 10
	RingCapacity     = 132 << 10
	NotesCapacity    = 204 << 10
)

// Area is one area of the trace memory: where it starts and how many bytes it holds.
type Area struct {
	Offset   int64 `json:"offset"`
	Capacity int64 `json:"capacity"`
}

// MemoryLayout returns the areas and the size of the whole trace memory for a
// job with the given trace_bytes, which must be positive. Areas start on page
// boundaries.
func MemoryLayout(traceBytes int64) (areas [AreaCount]Area, size int64) {
	at := int64(MemoryHeaderSize)
	for i, capacity := range [AreaCount]int64{traceBytes, DefsCapacity, CountersCapacity, EndCapacity, RingCapacity, NotesCapacity} {
		areas[i] = Area{Offset: at, Capacity: capacity}
		at += (capacity + 4095) &^ 4095
	}
	return areas, at
}

// Committed reads how many bytes of each area a header page says are
// committed, each cut to the area's capacity. A short page or a wrong magic
// gives zeros: the program can write anything here.
func Committed(header []byte, areas [AreaCount]Area) (used [AreaCount]int64) {
	if len(header) < len(MemoryMagic)+8*AreaCount || string(header[:len(MemoryMagic)]) != MemoryMagic {
		return used
	}
	for i := range used {
		n := binary.LittleEndian.Uint64(header[len(MemoryMagic)+8*i:])
		used[i] = int64(min(n, uint64(areas[i].Capacity)))
	}
	return used
}

// Farewell is what an interpreter says that is about to end: everything is written out and recorded, and only the kernel's
// work is left. The program can say it too, and then it ends as with os._exit.
type Farewell struct {
	// PID is the process that says so, as it is called in the sandbox: a copy of the interpreter may say it of itself.
	PID int
	// ExitCode is the status it ends with, from 0 to 255.
	ExitCode int
	// PeakBytes is the most memory that it says it had. It is never negative.
	PeakBytes int64
}

// ReadFarewell reads the farewell from a header page; false when there is none, or none that makes sense.
func ReadFarewell(header []byte) (Farewell, bool) {
	const at = len(MemoryMagic) + 8*AreaCount
	if len(header) < at+24 || string(header[:len(MemoryMagic)]) != MemoryMagic {
		return Farewell{}, false
	}
	status := binary.LittleEndian.Uint64(header[at:]) // one more than the exit code
	if status < 1 || status > 256 {
		return Farewell{}, false
	}
	pid, peak := binary.LittleEndian.Uint64(header[at+8:]), binary.LittleEndian.Uint64(header[at+16:])
	return Farewell{PID: int(min(pid, math.MaxInt32)), ExitCode: int(status - 1), PeakBytes: int64(min(peak, math.MaxInt64))}, true
}
