package wire

import "encoding/binary"

// The trace memory is a sealed memfd that the supervisor makes, the tracer
// maps shared and writes, and the supervisor reads with pread. Every byte
// committed survives any death of the program.
//
// It starts with a header page: the eight bytes of MemoryMagic, then one
// little-endian uint64 per area that counts the bytes committed to the area. The
// areas follow, each at a fixed offset. What the bytes of an area mean is
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
