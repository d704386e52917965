package trace

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func pointer[T any](v T) *T { return &v }

// notesArea makes an area of notes: counts of files, sockets, processes, deaths of
// threads, warnings and unraisable exceptions, and then the notes.
func notesArea(counts [6]uint64, notes ...[]byte) []byte {
	out := binary.LittleEndian.AppendUint32(nil, notesFormat)
	out = binary.LittleEndian.AppendUint32(out, noteBytes)
	for _, n := range counts {
		out = binary.LittleEndian.AppendUint64(out, n)
	}
	out = append(out, make([]byte, notesHead-len(out))...)
	return append(out, slices.Concat(notes...)...)
}

// noteOf makes a note that is the first of its kind, of line 2 in thread 1, after event 3.
func noteOf(kind, action, function uint32, texts ...string) []byte {
	return changed(noteFields{kind: kind, action: action, number: 1, times: 1, seq: 3, thread: 1, function: function, line: 2}, texts...)
}

// noteFields are the fields of a note that tests set.
type noteFields struct {
	kind, action                   uint32
	number, times, seq             uint64
	failures                       uint32
	err                            int32
	thread, function, line, family uint32
}

func changed(f noteFields, texts ...string) []byte {
	out := binary.LittleEndian.AppendUint32(nil, f.kind)
	out = binary.LittleEndian.AppendUint32(out, f.action)
	for _, n := range []uint64{f.number, f.times, f.seq} {
		out = binary.LittleEndian.AppendUint64(out, n)
	}
	for _, n := range []uint32{f.failures, uint32(f.err), f.thread, f.function, f.line, f.family} {
		out = binary.LittleEndian.AppendUint32(out, n)
	}
	for _, text := range texts {
		out = append(binary.AppendUvarint(out, uint64(len(text))), text...)
	}
	return append(out, make([]byte, noteBytes-len(out))...)
}

// TestEffects decodes notes of each kind, in the order in which they were made.
func TestEffects(t *testing.T) {
	t.Parallel()
	areas, opts := sound()
	areas[areaNotes] = notesArea([6]uint64{},
		changed(noteFields{kind: noteSocket, action: 33, number: 3, times: 2, seq: 3, failures: 1, err: 101, thread: 1, function: 1, line: 2, family: 2}, "10.0.0.1:80"),
		changed(noteFields{kind: noteFile, action: 1, number: 2, times: 7, seq: 2, failures: 2, err: 2, thread: 1, function: 1, line: 1}, "a\xffb"),
		make([]byte, noteBytes),
		changed(noteFields{kind: noteProcess, action: 68, number: 4, times: 1, seq: 4, failures: 1, err: -3, thread: 2}, ""),
		changed(noteFields{kind: noteSocket, action: 32, number: 5, times: 1, failures: 1, err: 4095, thread: 1, function: 1, line: 2, family: 99}, ""),
	)
	got := Decode(areas, opts)
	want := []Effect{
		{Kind: EffectFile, Action: "read", Name: "a\ufffdb", Error: pointer("ENOENT"), Times: 7, Failures: 2, File: "main.py", Line: 1, Function: "<module>", Thread: 1, Seq: 2},
		{Kind: EffectSocket, Action: "connect", Name: "10.0.0.1:80", Family: "AF_INET", Error: pointer("ENETUNREACH"), Times: 2, Failures: 1, File: "main.py", Line: 2, Function: "<module>", Thread: 1, Seq: 3},
		{Kind: EffectProcess, Action: "fork", Error: pointer("EAI_AGAIN"), Times: 1, Failures: 1, Thread: 2, Seq: 4},
		{Kind: EffectSocket, Action: "open", Family: "AF_99", Error: pointer("error 4095"), Times: 1, Failures: 1, File: "main.py", Line: 2, Function: "<module>", Thread: 1},
	}
	if diff := cmp.Diff(want, got.Effects); diff != "" || !got.Complete {
		t.Errorf("effects, complete %v (-want +got):\n%s", got.Complete, diff)
	}
}

// TestCaught decodes what became of exceptions, after an end of the interpreter's own and without.
func TestCaught(t *testing.T) {
	t.Parallel()
	raised := func(number uint64, fate, thread uint32) []byte {
		return changed(noteFields{kind: noteException, action: fate, number: number, times: number, thread: thread, function: 1, line: 1}, "E", "")
	}
	notes := notesArea([6]uint64{}, raised(4, fateIgnored, 1), raised(1, fateOpen, 1), raised(2, fateOpen, 2), raised(3, fateThread, 2), raised(9, fateProgram, 3), raised(8, fateOpen, 4))
	for name, c := range map[string]struct {
		end  []byte
		want map[int64]*bool
	}{
		"ended":  {area(`["end","exception"]`), map[int64]*bool{1: pointer(true), 2: pointer(true), 3: pointer(false), 4: pointer(false), 8: pointer(true), 9: pointer(false)}},
		"killed": {nil, map[int64]*bool{1: pointer(true), 2: pointer(true), 3: pointer(false), 4: pointer(false), 8: nil, 9: pointer(false)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			areas, opts := sound()
			areas[areaNotes], areas[areaEnd] = notes, c.end
			got := map[int64]*bool{}
			for _, e := range Decode(areas, opts).Summary.Exceptions {
				got[e.Number] = e.Caught
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("caught (-want +got):\n%s", diff)
			}
		})
	}
}

// TestThreadExceptions decodes exceptions that ended threads.
func TestThreadExceptions(t *testing.T) {
	t.Parallel()
	areas, opts := sound()
	areas[areaNotes] = notesArea([6]uint64{3: 7}, changed(noteFields{kind: noteThread, number: 1, times: 1, thread: 2, function: 1, line: 2}, "ValueError", "no"),
		changed(noteFields{kind: noteThread, number: 2, times: 1, thread: 3}, "OSError", ""))
	got := Decode(areas, opts).Summary
	want := []ThreadException{
		{Thread: 2, Type: "ValueError", Message: "no", File: "main.py", Line: 2, Function: "<module>"},
		{Thread: 3, Type: "OSError"},
	}
	if diff := cmp.Diff(want, got.ThreadExceptions); diff != "" || got.ThreadExceptionsTotal != 7 {
		t.Errorf("thread exceptions, %d in all (-want +got):\n%s", got.ThreadExceptionsTotal, diff)
	}
}

// TestUntracedHasNoNotes holds that a program that ran untraced has no effects, whatever it wrote.
func TestUntracedHasNoNotes(t *testing.T) {
	t.Parallel()
	areas, opts := sound()
	areas[areaNotes], opts.Mode = notesArea([6]uint64{}, noteOf(noteFile, 1, 0, "x")), "off"
	if got := Decode(areas, opts); got.Effects != nil || got.Summary != nil {
		t.Errorf("got %+v, want nothing", got)
	}
}
