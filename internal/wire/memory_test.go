package wire_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/wire"
)

func TestMemoryLayout(t *testing.T) {
	t.Parallel()
	for _, traceBytes := range []int64{1, 4096, 64 << 10, 4<<20 + 1, 64 << 20} {
		areas, size := wire.MemoryLayout(traceBytes)
		at := int64(wire.MemoryHeaderSize)
		for i, a := range areas {
			if a.Offset < at || a.Offset%4096 != 0 {
				t.Errorf("trace_bytes %d: area %d starts at %d, want a page boundary from %d on", traceBytes, i, a.Offset, at)
			}
			at = a.Offset + a.Capacity
		}
		if areas[wire.AreaEvents].Capacity != traceBytes {
			t.Errorf("trace_bytes %d: events hold %d", traceBytes, areas[wire.AreaEvents].Capacity)
		}
		if size < at || size >= at+4096 {
			t.Errorf("trace_bytes %d: size %d, the last area ends at %d", traceBytes, size, at)
		}
	}
}

func TestCommitted(t *testing.T) {
	t.Parallel()
	areas, _ := wire.MemoryLayout(100_000)
	header := func(magic string, counts ...uint64) []byte {
		page := make([]byte, wire.MemoryHeaderSize)
		copy(page, magic)
		for i, n := range counts {
			binary.LittleEndian.PutUint64(page[8+8*i:], n)
		}
		return page
	}
	tests := map[string]struct {
		header []byte
		want   [wire.AreaCount]int64
	}{
		"untouched":   {header("\x00"), [wire.AreaCount]int64{}},
		"wrong magic": {header("TFTRACE2", 1, 2, 3, 4), [wire.AreaCount]int64{}},
		"short page":  {header(wire.MemoryMagic, 1, 2, 3, 4)[:39], [wire.AreaCount]int64{}},
		"empty":       {nil, [wire.AreaCount]int64{}},
		"in range":    {header(wire.MemoryMagic, 10, 20, 30, 40), [wire.AreaCount]int64{10, 20, 30, 40}},
		"at capacity": {header(wire.MemoryMagic, 100_000), [wire.AreaCount]int64{100_000}},
		"absurd": {header(wire.MemoryMagic, 100_001, 1<<63, ^uint64(0), 1<<40),
			[wire.AreaCount]int64{100_000, wire.DefsCapacity, wire.CountersCapacity, wire.EndCapacity}},
		"all ones": {bytes.Repeat([]byte{0xff}, wire.MemoryHeaderSize), [wire.AreaCount]int64{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, wire.Committed(tt.header, areas)); diff != "" {
				t.Errorf("Committed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadFarewell(t *testing.T) {
	t.Parallel()
	header := func(magic string, words ...uint64) []byte {
		page := make([]byte, wire.MemoryHeaderSize)
		copy(page, magic)
		for i, n := range words {
			binary.LittleEndian.PutUint64(page[8+8*wire.AreaCount+8*i:], n)
		}
		return page
	}
	tests := map[string]struct {
		header []byte
		want   wire.Farewell
		ok     bool
	}{
		"untouched":      {header(wire.MemoryMagic), wire.Farewell{}, false},
		"wrong magic":    {header("TFTRACE2", 1, 7, 4096), wire.Farewell{}, false},
		"short page":     {header(wire.MemoryMagic, 1, 7, 4096)[:79], wire.Farewell{}, false},
		"empty":          {nil, wire.Farewell{}, false},
		"status 0":       {header(wire.MemoryMagic, 1, 7, 4096), wire.Farewell{PID: 7, PeakBytes: 4096}, true},
		"status 255":     {header(wire.MemoryMagic, 256, 7, 0), wire.Farewell{PID: 7, ExitCode: 255}, true},
		"no such status": {header(wire.MemoryMagic, 257, 7, 0), wire.Farewell{}, false},
		"absurd":         {header(wire.MemoryMagic, 3, 1<<63, ^uint64(0)), wire.Farewell{PID: math.MaxInt32, ExitCode: 2, PeakBytes: math.MaxInt64}, true},
		"all ones":       {bytes.Repeat([]byte{0xff}, wire.MemoryHeaderSize), wire.Farewell{}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := wire.ReadFarewell(tt.header)
			if diff := cmp.Diff(tt.want, got); diff != "" || ok != tt.ok {
				t.Errorf("got %v, want %v; farewell (-want +got):\n%s", ok, tt.ok, diff)
			}
		})
	}
}
