package trace

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
)

const (
	ringHead    = 16
	segmentHead = 16
	maxSegments = 64
	// maxTail is how many of the last events are shown, with up to as many before
	// them when no variables were looked at in these.
	maxTail = 500
)

var errRing = errors.New("its head is not one")

// segment is a part of the ring: the number of its first event, and its records.
type segment struct {
	first   uint64
	records []byte
}

// ringEvent is an event of the ring, and what its record had.
type ringEvent struct {
	Event
	has byte
}

// tail reads the ring: the last events of the run, after the gap.
func (d *decoder) tail(area []byte) error {
	if len(area) == 0 {
		return nil
	}
	segments, err := readSegments(area)
	if err != nil {
		return err
	}
	last := uint64(len(d.trace.Events))
	var found []ringEvent
	for _, s := range segments {
		if s.first <= last || s.first > maxSafe {
			return errRecord
		}
		seq := s.first
		r := &recordReader{byteReader: byteReader{rest: s.records}, d: d}
		for len(r.rest) > 0 {
			e, has, err := r.event()
			if err != nil {
				return err
			}
			e.Seq = int64(seq)
			found = append(found, ringEvent{e, has})
			seq++
		}
		last = seq - 1
	}
	d.addTail(found[tailStart(found):])
	return nil
}

// readSegments splits the ring, oldest events first. Empty segments are left out.
func readSegments(area []byte) ([]segment, error) {
	r := &byteReader{rest: area}
	format, count, size := r.uint32(), r.uint32(), r.uint32()
	if len(area) < ringHead || format != binaryFormat || count > maxSegments || size < segmentHead ||
		uint64(ringHead)+uint64(count)*uint64(size) > uint64(len(area)) {
		return nil, errRing
	}
	var segments []segment
	for i := range int(count) {
		part := area[ringHead+i*int(size):][:size]
		first, used := binary.LittleEndian.Uint64(part), binary.LittleEndian.Uint64(part[8:])
		if used > uint64(size)-segmentHead {
			return nil, errFrame
		}
		if used > 0 {
			segments = append(segments, segment{first, part[segmentHead:][:used]})
		}
	}
	slices.SortFunc(segments, func(a, b segment) int { return cmp.Compare(a.first, b.first) })
	return segments, nil
}

// tailStart returns where the events after the gap start: at one whose
// variables were looked at, the first of the last maxTail events or, when that is
// far, the last one before them.
func tailStart(events []ringEvent) int {
	seen := func(e ringEvent) bool { return e.has&hasLooked != 0 }
	start := max(0, len(events)-maxTail)
	if i := slices.IndexFunc(events[start:], seen); i >= 0 && i < maxTail/2 {
		return start + i
	}
	for i := start - 1; i >= 0 && i >= start-maxTail; i-- {
		if seen(events[i]) {
			return i
		}
	}
	return start
}

// addTail adds the last events, and says of variables and objects only what is
// new since the frame's last event in the tail: the ring repeats all each time.
func (d *decoder) addTail(events []ringEvent) {
	vars := map[int]map[string]Value{}
	heap := map[int]Value{}
	for _, e := range events {
		if e.has&hasLooked == 0 {
			e.Unseen = d.opts.Mode == "full"
		} else {
			if vars[e.Frame] == nil {
				vars[e.Frame] = map[string]Value{}
			}
			e.Vars = newVars(vars[e.Frame], e.Vars)
			e.Heap = newHeap(heap, e.Heap)
		}
		d.trace.Events = append(d.trace.Events, e.Event)
	}
}

// newVars returns those of all variables that differ from what is known, and
// what is gone, and updates what is known.
func newVars(known map[string]Value, all Vars) Vars {
	var changed Vars
	present := map[string]bool{}
	for _, v := range all {
		present[v.Name] = true
		if !bytes.Equal(known[v.Name], v.Value) {
			known[v.Name] = v.Value
			changed = append(changed, v)
		}
	}
	var gone []string
	for name := range known {
		if !present[name] {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	for _, name := range gone {
		delete(known, name)
		changed = append(changed, Var{Name: name, Value: Value(`["DEL"]`)})
	}
	return changed
}

// newHeap returns the objects that differ from what is known, and updates it.
func newHeap(known map[int]Value, all Heap) Heap {
	var changed Heap
	for _, entry := range all {
		if !bytes.Equal(known[entry.Ref], entry.Value) {
			known[entry.Ref] = entry.Value
			changed = append(changed, entry)
		}
	}
	return changed
}
