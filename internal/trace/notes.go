package trace

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
)

// The area of notes: a head with counts, and notes of one size.
const (
	notesFormat = 1
	notesHead   = 128
	noteBytes   = 768
	maxNotes    = 512
	maxNoteText = noteBytes
)

// The kinds of notes.
const (
	noteException = 1 + iota
	noteThread
	noteFile
	noteSocket
	noteProcess
)

// The values of a note's action when it is of an exception.
const (
	fateOpen = iota
	fateProgram
	fateThread
	fateIgnored
)

var errNotes = errors.New("their head is not one")

// noted is what the notes say.
type noted struct {
	exceptions  []Raised
	deaths      []ThreadException
	deathsTotal int64

	warnings, unraisable int64
	effectsTotal         EffectsTotal
}

// note is one note as it lies in memory.
type note struct {
	kind, action       uint32
	number, times, seq uint64
	failures           uint32
	err                int32
	thread, function   uint32
	line, family       uint32
	texts              byteReader
}

// notes reads the area of notes. One that is empty, or was being written when the
// program ended, is left out.
func (d *decoder) notes(area []byte) error {
	d.noted = noted{exceptions: []Raised{}, deaths: []ThreadException{}}
	if len(area) == 0 {
		return nil
	}
	head := &byteReader{rest: area}
	if format, size := head.uint32(), head.uint32(); len(area) < notesHead || format != notesFormat || size != noteBytes {
		return errNotes
	}
	count := func() int64 { return int64(min(head.uint64(), maxSafe)) }
	d.noted.effectsTotal = EffectsTotal{File: count(), Socket: count(), Process: count()}
	d.noted.deathsTotal, d.noted.warnings, d.noted.unraisable = count(), count(), count()
	var list []note
	for rest := area[notesHead:]; len(rest) >= noteBytes && len(list) < maxNotes; rest = rest[noteBytes:] {
		if binary.LittleEndian.Uint32(rest) != 0 {
			list = append(list, readNote(rest[:noteBytes]))
		}
	}
	slices.SortStableFunc(list, func(a, b note) int { return cmp.Compare(a.number, b.number) })
	for i := range list {
		if err := d.addNote(&list[i]); err != nil {
			return err
		}
	}
	d.settle()
	return nil
}

func readNote(b []byte) note {
	r := byteReader{rest: b}
	n := note{kind: r.uint32(), action: r.uint32(), number: r.uint64(), times: r.uint64(), seq: r.uint64(),
		failures: r.uint32(), err: int32(r.uint32()), thread: r.uint32(), function: r.uint32(), line: r.uint32(), family: r.uint32()}
	n.texts = r
	return n
}

// addNote checks a note and puts it on its list.
func (d *decoder) addNote(n *note) error {
	if n.function > uint32(len(d.codes)) || n.line > maxLine || n.thread > maxLine || n.number > maxSafe || n.times > maxSafe || n.seq > maxSafe {
		return errRecord
	}
	switch n.kind {
	case noteException, noteThread:
		return d.addRaised(n)
	case noteFile, noteSocket, noteProcess:
		return d.addEffect(n)
	}
	return errRecord
}

// placeOf names the file and the function of a note; they are empty when it is of no user code.
func (d *decoder) placeOf(n *note) (file, function string) {
	if n.function == 0 {
		return "", ""
	}
	c := d.codes[n.function-1]
	return d.files[c.File-1].Path, c.Name
}

func (d *decoder) addRaised(n *note) error {
	file, function := d.placeOf(n)
	kind, message := n.texts.text(maxNoteText), n.texts.text(maxNoteText)
	if n.texts.bad || n.action > fateIgnored {
		return errRecord
	}
	if n.kind == noteThread {
		d.noted.deaths = append(d.noted.deaths, ThreadException{
			Thread: int(n.thread), Type: kind, Message: message, File: file, Line: int(n.line), Function: function,
		})
		return nil
	}
	e := Raised{
		Number: int64(n.times), Type: kind, Message: message, File: file, Line: int(n.line), Function: function,
		Thread: int(n.thread), Seq: int64(n.seq),
	}
	if n.action != fateOpen {
		e.Caught = new(bool)
	}
	d.noted.exceptions = append(d.noted.exceptions, e)
	return nil
}

func (d *decoder) addEffect(n *note) error {
	file, function := d.placeOf(n)
	kind, what, ok := action(n.kind, n.action)
	name := n.texts.text(maxNoteText)
	if !ok || n.texts.bad {
		return errRecord
	}
	e := Effect{
		Kind: kind, Action: what, Name: name, Family: familyName(n.family), Times: int64(n.times), Failures: int64(n.failures),
		File: file, Line: int(n.line), Function: function, Thread: int(n.thread), Seq: int64(n.seq),
	}
	if n.failures > 0 {
		text := errnoName(n.err)
		e.Error = &text
	}
	d.rec.Effects = append(d.rec.Effects, e)
	return nil
}

// settle finds which exceptions were caught: all that nothing else is known of when the
// program came to its own end, else those after which their thread raised another.
func (d *decoder) settle() {
	later := map[int]bool{}
	for i := len(d.noted.exceptions) - 1; i >= 0; i-- {
		e := &d.noted.exceptions[i]
		if e.Caught == nil && (d.rec.Ended || later[e.Thread]) {
			caught := true
			e.Caught = &caught
		}
		later[e.Thread] = true
	}
}
