//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/execra/tracefleet/internal/wire"
)

// testPipe returns a pipe whose reading end has deadlines.
func testPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() }) // closed already in most tests
	return r, w
}

// framesIn decodes all frames of a stream.
func framesIn(t *testing.T, stream io.Reader) (frames []wire.Frame) {
	t.Helper()
	d := wire.NewDecoder(stream)
	for {
		f, err := d.Next()
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		frames = append(frames, wire.Frame{Type: f.Type, Payload: bytes.Clone(f.Payload)})
	}
}

// TestLineHasItsOwnBound checks that what is read after a line is not bound by the time that the line had.
func TestLineHasItsOwnBound(t *testing.T) {
	t.Parallel()
	for name, patience := range map[string]time.Duration{"in time": time.Minute, "too late": -time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w := testPipe(t)
			if _, err := w.WriteString("{}\n"); err != nil {
				t.Fatal(err)
			}
			line, err := (&interpreter{control: r}).readLine(patience)
			if late := errors.Is(err, os.ErrDeadlineExceeded); late != (patience < 0) || !late && (err != nil || string(line) != "{}\n") {
				t.Errorf("got %q, %v", line, err)
			}
			if _, err := w.WriteString("!"); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Read(make([]byte, 4)); err != nil {
				t.Errorf("read after it: %v", err)
			}
		})
	}
}

// TestStarted checks that the byte which the tracer wrote is found however long ago the greeting was due, and that none is without it.
func TestStarted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"started": true, "not started": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w := testPipe(t)
			if err := r.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
				t.Fatal(err)
			}
			if want {
				if _, err := w.Write([]byte("!")); err != nil {
					t.Fatal(err)
				}
			}
			_ = w.Close()
			if got := (&interpreter{control: r}).started(); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestRelayCap(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		written int
		limit   int64
		kept    int
		over    bool
	}{
		"nothing":          {0, 10, 0, false},
		"at the cap":       {10, 10, 10, false},
		"one over":         {11, 10, 10, true},
		"cap of nothing":   {1, 0, 0, true},
		"far over":         {300_000, 100_000, 100_000, true},
		"a chunk exactly":  {wire.MaxChunk, wire.MaxChunk, wire.MaxChunk, false},
		"several chunks":   {5*wire.MaxChunk + 1, 1 << 20, 5*wire.MaxChunk + 1, false},
		"over on the edge": {2 * wire.MaxChunk, wire.MaxChunk, wire.MaxChunk, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, w := testPipe(t)
			var stream bytes.Buffer
			past := make(chan string, 2)
			r := newRelay(wire.Stderr, "stderr")
			out := &frameWriter{w: &stream}
			go r.run(src, tt.limit, out, past)
			data := bytes.Repeat([]byte("abcdefg"), tt.written/7+1)[:tt.written]
			if _, err := w.Write(data); err != nil {
				t.Fatal(err)
			}
			_ = w.Close()
			<-r.done
			if err := out.flush(); err != nil {
				t.Fatal(err)
			}
			var got []byte
			for _, f := range framesIn(t, &stream) {
				if f.Type != wire.Stderr {
					t.Fatalf("got a %q frame", byte(f.Type))
				}
				got = append(got, f.Payload...)
			}
			if !bytes.Equal(got, data[:tt.kept]) {
				t.Errorf("kept %d bytes, want the first %d", len(got), tt.kept)
			}
			if r.total != int64(tt.written) || r.over() != tt.over || (len(past) == 1) != tt.over {
				t.Errorf("got total %d, over %v, told %d times, want %d, %v", r.total, r.over(), len(past), tt.written, tt.over)
			}
		})
	}
}

// TestRelayPassesOnWhatIsThere checks that output is not held back while the
// program runs on.
func TestRelayPassesOnWhatIsThere(t *testing.T) {
	t.Parallel()
	src, w := testPipe(t)
	out, frames := io.Pipe()
	r := newRelay(wire.Stdout, "stdout")
	go r.run(src, 100, &frameWriter{w: frames}, make(chan string, 2))
	if _, err := w.WriteString("a line\n"); err != nil {
		t.Fatal(err)
	}
	f, err := wire.NewDecoder(out).Next() // the writer is still open
	if err != nil || string(f.Payload) != "a line\n" {
		t.Errorf("got %q, %v", f.Payload, err)
	}
	_ = w.Close()
	<-r.done
}

// reluctant is a worker that takes each frame only after a while.
type reluctant struct{ bytes.Buffer }

func (r *reluctant) Write(p []byte) (int, error) {
	<-time.After(2 * coalesce)
	return r.Buffer.Write(p)
}

// TestRelayOutlastsItsPatience fills the relay's buffer out of a pipe that
// gives it a page at a time, while the worker takes longer than coalesce.
// A read deadline left behind would end the relay and block the program.
func TestRelayOutlastsItsPatience(t *testing.T) {
	t.Parallel()
	src, w := testPipe(t)
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("abcdefg"), 40_000)
	var stream reluctant
	r := newRelay(wire.Stdout, "stdout")
	go r.run(src, 1<<20, &frameWriter{w: &stream}, make(chan string, 2))
	written := make(chan error, 1)
	go func() {
		_, err := w.Write(data)
		written <- errors.Join(err, w.Close())
	}()
	<-r.done
	_ = src.Close() // a writer that is still blocked gets an error
	if err := <-written; err != nil {
		t.Fatalf("write: %v", err)
	}
	if r.total != int64(len(data)) {
		t.Errorf("relayed %d bytes, want %d", r.total, len(data))
	}
}

func TestFeedToleratesReaders(t *testing.T) {
	t.Parallel()
	r, w := testPipe(t)
	_ = r.Close()
	feed(w, make([]byte, 1<<20)) // must return
	if err := w.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("stdin is still open: %v", err)
	}
}

func goodJob() wire.JobInfo {
	return wire.JobInfo{Entrypoint: "main.py", Files: map[string][]byte{"main.py": nil}, WallMS: 1, CPUMS: 1, OpenFiles: 16, Processes: 1, TraceBytes: 1}
}

func TestCheckJob(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*wire.JobInfo)
		want   string
	}{
		"good":            {func(*wire.JobInfo) {}, ""},
		"nested":          {func(j *wire.JobInfo) { j.Files["a/b/c.py"] = nil }, ""},
		"dots in a name":  {func(j *wire.JobInfo) { j.Files["a..b/...py"] = nil }, ""},
		"no entrypoint":   {func(j *wire.JobInfo) { j.Entrypoint = "other.py" }, "no file"},
		"absolute":        {func(j *wire.JobInfo) { j.Files["/etc/passwd"] = nil }, "bad path"},
		"parent":          {func(j *wire.JobInfo) { j.Files["../x"] = nil }, "bad path"},
		"hidden parent":   {func(j *wire.JobInfo) { j.Files["a/../../x"] = nil }, "bad path"},
		"dot":             {func(j *wire.JobInfo) { j.Files["."] = nil }, "bad path"},
		"empty":           {func(j *wire.JobInfo) { j.Files[""] = nil }, "bad path"},
		"trailing slash":  {func(j *wire.JobInfo) { j.Files["a/"] = nil }, "bad path"},
		"no wall":         {func(j *wire.JobInfo) { j.WallMS = 0 }, "wall_ms"},
		"negative cpu":    {func(j *wire.JobInfo) { j.CPUMS = -1 }, "cpu_ms"},
		"negative output": {func(j *wire.JobInfo) { j.OutputBytes = -1 }, "output_bytes"},
		"absurd trace":    {func(j *wire.JobInfo) { j.TraceBytes = 1 << 40 }, "trace_bytes"},
		"no trace memory": {func(j *wire.JobInfo) { j.TraceBytes = 0 }, "trace_bytes"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info := goodJob()
			tt.change(&info)
			err := checkJob(info)
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestWriteFiles(t *testing.T) {
	t.Parallel()
	t.Run("as given", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		want := map[string][]byte{"main.py": []byte("\xef\xbb\xbfprint(1)\r\n"), "a/b/c.py": []byte("\xff"), "empty.txt": {}}
		if err := writeFiles(dir, want); err != nil {
			t.Fatal(err)
		}
		for name, data := range want {
			got, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: got %q, %v, want %q", name, got, err, data)
			}
		}
	})
	t.Run("never through a link", func(t *testing.T) {
		t.Parallel()
		dir, outside := t.TempDir(), t.TempDir()
		if err := errors.Join(os.Symlink(outside, filepath.Join(dir, "link")), os.Symlink(filepath.Join(outside, "f"), filepath.Join(dir, "file"))); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"link/x.py", "file", "../x.py"} {
			if err := writeFiles(dir, map[string][]byte{name: []byte("x")}); err == nil {
				t.Errorf("%s: written", name)
			}
		}
		if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
			t.Errorf("outside holds %v, %v", left, err)
		}
	})
	t.Run("never over a file", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		files := map[string][]byte{"a": []byte("1")}
		if err := errors.Join(writeFiles(dir, files)); err != nil {
			t.Fatal(err)
		}
		if err := writeFiles(dir, files); !errors.Is(err, os.ErrExist) {
			t.Errorf("got %v, want that it exists", err)
		}
	})
}

func TestControlLine(t *testing.T) {
	t.Parallel()
	info := goodJob()
	info.Args, info.CPUMS, info.WallMS, info.TraceMode, info.TraceValues, info.TraceEvents, info.FileBytes = []string{"a b", "\n"}, 1500, 9000, "full", true, 7, 9
	areas, size := wire.MemoryLayout(4096)
	line, err := controlLine(info, areas[:], size, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(line, []byte("\n")); n != 1 || line[len(line)-1] != '\n' {
		t.Errorf("not one line: %q", line)
	}
	want := `{"entrypoint":"main.py","no_archive":true,"args":["a b","\n"],"mode":"full","values":true,"include":[],"events":7,` +
		`"areas":[{"offset":4096,"capacity":4096},{"offset":8192,"capacity":2097152},{"offset":2105344,"capacity":524288},{"offset":2629632,"capacity":524288},{"offset":3153920,"capacity":135168},{"offset":3289088,"capacity":208896}],` +
		`"size":3497984,"open_files":16,"file_bytes":9,"processes":1,"cpu_s":4,"exact_ms":375,"cpu_ms":1500,"wall_end_ms":14000}` + "\n"
	if diff := cmp.Diff(want, string(line)); diff != "" {
		t.Errorf("control line (-want +got):\n%s", diff)
	}
}

func TestTraceMemoryIsSealed(t *testing.T) {
	t.Parallel()
	m, err := newTraceMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(m.fd) })
	size, err := m.size(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []int64{0, size - 1, size + 1, 1 << 40} {
		if err := unix.Ftruncate(m.fd, to); !errors.Is(err, unix.EPERM) {
			t.Errorf("truncate to %d: got %v, want EPERM", to, err)
		}
	}
	if _, err := unix.FcntlInt(uintptr(m.fd), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE); !errors.Is(err, unix.EPERM) {
		t.Errorf("add a seal: got %v, want EPERM", err)
	}
	if _, err := unix.Mmap(m.fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Errorf("map for writing: %v", err)
	}
}

func TestTraceMemoryIsSentWhole(t *testing.T) {
	t.Parallel()
	m, err := newTraceMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(m.fd) })
	if _, err := m.size(1 << 20); err != nil {
		t.Fatal(err)
	}
	want := [wire.AreaCount][]byte{
		wire.AreaEvents: bytes.Repeat([]byte("event"), 40_000), wire.AreaDefs: bytes.Repeat([]byte("d"), wire.MaxChunk-1),
		wire.AreaCounters: bytes.Repeat([]byte("c"), wire.MaxChunk),
	}
	header := []byte(wire.MemoryMagic)
	for area, data := range want {
		header = append(header, byte(len(data)), byte(len(data)>>8), byte(len(data)>>16), 0, 0, 0, 0, 0)
		if _, err := unix.Pwrite(m.fd, data, m.areas[area].Offset); err != nil && len(data) > 0 {
			t.Fatal(err)
		}
	}
	if _, err := unix.Pwrite(m.fd, header, 0); err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	if err := m.send(&frameWriter{w: &stream}); err != nil {
		t.Fatal(err)
	}
	var got [wire.AreaCount][]byte
	for _, f := range framesIn(t, &stream) {
		if f.Type != wire.Trace || len(f.Payload) < 2 {
			t.Fatalf("got a %q frame of %d bytes", byte(f.Type), len(f.Payload))
		}
		got[f.Payload[0]] = append(got[f.Payload[0]], f.Payload[1:]...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("areas (-want +got):\n%s", diff)
	}
}

func TestNextLook(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		left, age time.Duration
		most      time.Duration
	}{
		"at the start":    {time.Hour, 4 * time.Millisecond, firstLook},
		"later":           {time.Hour, time.Hour, longestLook},
		"near the limit":  {20 * time.Millisecond, time.Hour, 20 * time.Millisecond},
		"past the limit":  {-time.Second, time.Hour, firstLook},
		"on its last leg": {time.Millisecond, time.Hour, firstLook},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := nextLook(tt.left, tt.age); got < firstLook || got > tt.most {
				t.Errorf("got %v, want %v to %v", got, firstLook, tt.most)
			}
		})
	}
}

func TestFailIsSmallAndWhole(t *testing.T) {
	t.Parallel()
	var stream bytes.Buffer
	out := &frameWriter{w: &stream}
	if err := out.sendJSON(wire.Fail, wire.FailInfo{Error: clip(strings.Repeat("\x00é", 10_000), 2000)}); err != nil {
		t.Fatal(err)
	}
	var info wire.FailInfo
	if err := json.Unmarshal(framesIn(t, &stream)[0].Payload, &info); err != nil || info.Error == "" {
		t.Errorf("got %q, %v", info.Error, err)
	}
}

// TestNotPID1 guards the machine that runs the tests: outside a sandbox the
// supervisor would kill everything that its user runs.
func TestNotPID1(t *testing.T) {
	t.Parallel()
	if os.Getpid() == 1 {
		t.Fatal("these tests must not be PID 1")
	}
	if err := supervise(strings.NewReader(""), &frameWriter{w: io.Discard}); err == nil || !strings.Contains(err.Error(), "PID 1") {
		t.Errorf("got %v, want a refusal", err)
	}
}

// What is held back arrives in order, as few writes as fit, and before what does not fit.
func TestFramesHeldBack(t *testing.T) {
	t.Parallel()
	var got writes
	out := newFrameWriter(&got)
	send := func(kind wire.Type, size int) {
		t.Helper()
		if err := out.send(kind, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	send(wire.Stdout, 1)
	out.hold()
	send(wire.Stdout, 2)
	send(wire.Trace, 3)
	send(wire.Trace, wire.MaxChunk)
	send(wire.Trace, 4)
	if err := out.sendJSON(wire.End, wire.EndInfo{}); err != nil {
		t.Fatal(err)
	}
	end, err := json.Marshal(wire.EndInfo{})
	if err != nil {
		t.Fatal(err)
	}
	const h = wire.HeaderSize
	// A large frame is written in two.
	want := writes{h + 1, h + 2 + h + 3, h, wire.MaxChunk, h + 4 + h + len(end)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sizes of the writes (-want +got):\n%s", diff)
	}
}

// writes notes how large each write is.
type writes []int

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, len(p))
	return len(p), nil
}

// TestForgottenSandboxEnds checks that a supervisor does not wait for ever when nobody knows it any more.
func TestForgottenSandboxEnds(t *testing.T) {
	t.Parallel()
	in, _ := io.Pipe() // an engine keeps the input open, and nothing comes
	t.Cleanup(func() { _ = in.Close() })
	if info, _, err := awaitJob(in, newReaper(0), 10*time.Millisecond); !errors.Is(err, io.EOF) {
		t.Errorf("got %+v, error %v, want io.EOF", info, err)
	}
}

// A rehearsal leaves no file and no descriptor behind. The test is not parallel: it counts the process's descriptors.
func TestRehearsal(t *testing.T) {
	folder, r, out := t.TempDir(), newReaper(1), newFrameWriter(io.Discard)
	var before int
	for range 3 {
		if err := rehearse(folder, &cgroup{}, r, out); err != nil {
			t.Fatal(err)
		}
		if before == 0 { // the first one makes the runtime's own
			before = countFolder(t, "/proc/self/fd")
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if after := countFolder(t, "/proc/self/fd"); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if err := rehearse(filepath.Join(folder, "missing"), &cgroup{}, r, out); err == nil {
		t.Error("a folder that is not there does not matter to it: so the files are not rehearsed")
	}
}

// countFolder counts the entries of a folder.
func countFolder(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// The threads that the kernel counts are those that it lists. The test is not parallel: it looks at the whole process.
func TestOwnThreads(t *testing.T) {
	release, done := make(chan struct{}), make(chan struct{})
	for range 8 {
		holdThread(release, done)
	}
	got := ownThreads()
	if listed := int64(countFolder(t, "/proc/self/task")); got < 9 || got > listed {
		t.Errorf("got %d threads, want more than the 8 that are held, and no more than the %d listed afterwards", got, listed)
	}
	close(release)
	for range 8 {
		<-done
	}
}
