//go:build linux

package main

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execra/tracefleet/internal/wire"
)

// forgery lets a program say farewell for the interpreter, and end its streams.
const forgery = `
import ctypes, os, struct, time
def say(status, pid=os.getpid(), peak=1 << 62):
    for line in open('/proc/self/maps'):
        if 'memfd:trace' in line and line.split()[1] == 'rw-s':
            ctypes.memmove(int(line.split('-')[0], 16) + 56, struct.pack('<3Q', 1 + status, pid, peak), 24)
def close():
    os.close(1); os.close(2)
`

// TestForgedFarewells has programs say that they end that do not. It is to them what os._exit is: nothing that
// they do afterwards is waited for, and it counts for nothing while somebody holds a stream.
func TestForgedFarewells(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		code     string
		exitCode int
		killed   string
		stdout   string
	}{
		"goes on":                         {"print('a'); say(9); close()\nwhile True: pass", 9, "", "a\n"},
		"forks on":                        {"say(9); close()\nfor _ in range(8): os.fork()\nwhile True: pass", 9, "", ""},
		"writes the trace on":             {"say(9); close()\nwhile True:\n  for n in range(256): say(9, peak=n << 56)", 9, "", ""},
		"speaks before":                   {"os.write(1, b'x' * 300_000); say(0); close()\nwhile True: pass", 0, "", string(bytes.Repeat([]byte("x"), 300_000))},
		"speaks beyond its cap before":    {"os.write(1, b'x' * 600_000); say(0); close()\nwhile True: pass", -1, wire.KilledStdout, string(bytes.Repeat([]byte("x"), 500_000))},
		"keeps a stream":                  {"say(4); os.close(2); time.sleep(0.3); print('b'); os._exit(4)", 4, "", "b\n"},
		"keeps a copy of a stream":        {"kept = os.dup(1); say(4); close(); time.sleep(0.3); os.write(kept, b'b'); os._exit(4)", 4, "", "b"},
		"a child keeps the streams":       {"if os.fork() == 0: time.sleep(600)\nsay(9); close(); time.sleep(0.3); os._exit(4)", 4, "", ""},
		"a status that there is not":      {"say(1000); close(); time.sleep(0.3); os._exit(4)", 4, "", ""},
		"in another's name":               {"say(9, pid=1); close(); time.sleep(0.3); os._exit(4)", 4, "", ""},
		"a copy that Python knows not of": {"child = ctypes.CDLL(None).fork()\nif child: os.waitpid(child, 0); close(); time.sleep(0.3); os._exit(4)", 4, "", ""},
		"leaves a child without streams":  {"if os.fork() == 0:\n  close(); time.sleep(600)\nsay(9); close(); time.sleep(600)", 9, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for where, hide := range map[string][]string{"with a cgroup": nil, "without": {"--tmpfs", "/sys/fs/cgroup:ro"}} {
				info := aJob(forgery + tt.code)
				info.OutputBytes = 500_000
				got := runCode(t, boxOptions{extra: hide}, info)
				end := got.end
				if (tt.exitCode >= 0) != (end.Exited && end.ExitCode == tt.exitCode) || end.Killed != tt.killed {
					t.Errorf("%s: got %+v, stderr %q, want exit %d, killed %q", where, *end, tail(got.stderr), tt.exitCode, tt.killed)
				}
				if string(got.stdout) != tt.stdout {
					t.Errorf("%s: stdout: got %d bytes, %q at the end, want %d bytes", where, len(got.stdout), tail(got.stdout), len(tt.stdout))
				}
				if end.MaxMemoryBytes < 4<<20 || end.MaxMemoryBytes > info.MemoryBytes {
					t.Errorf("%s: got a peak of %d bytes, want no less than was seen and no more than there was", where, end.MaxMemoryBytes)
				}
			}
		})
	}
}

// TestUsageOfTheParted checks that nothing is lost of what a program used that is not waited for.
func TestUsageOfTheParted(t *testing.T) {
	t.Parallel()
	for where, hide := range map[string][]string{"with a cgroup": nil, "without": {"--tmpfs", "/sys/fs/cgroup:ro"}} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			got := runCode(t, boxOptions{extra: hide}, aJob(`
import os, time
def burn():
    end = time.process_time() + 0.2
    while time.process_time() < end: pass
data = bytearray(64 << 20)
del data
if os.fork() == 0:
    burn(); os._exit(0)
os.wait()
burn()
`)).end
			if got.CPUMS < 380 || got.CPUMS > 5_000 {
				t.Errorf("cpu: got %d ms, want 400 and a little", got.CPUMS)
			}
			if got.MaxMemoryBytes < 64<<20 || got.MaxMemoryBytes > 160<<20 {
				t.Errorf("memory: got %d, want 64 MiB and a little", got.MaxMemoryBytes)
			}
			if got.MaxProcesses != 2 {
				t.Errorf("processes: got %d, want 2", got.MaxProcesses)
			}
		})
	}
}

// TestFarewellIsNotWaitedFor has a process that never ends say farewell: both streams have ended, so the watch ends.
func TestFarewellIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	m, err := newTraceMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(m.fd) })
	if _, err := m.size(1 << 16); err != nil {
		t.Fatal(err)
	}
	s := session{
		python: &interpreter{pid: 7, memory: m}, reaper: newReaper(7), out: newFrameWriter(&bytes.Buffer{}), meter: newMeter(&cgroup{}, newReaper(7)),
		stdout: newRelay(wire.Stdout, "stdout"), stderr: newRelay(wire.Stderr, "stderr"),
		killAll: func() { t.Error("killed before the end") },
	}
	words := append([]byte(wire.MemoryMagic), make([]byte, 8*wire.AreaCount+24)...)
	words[56], words[64], words[74] = 1+3, 7, 1
	if _, err := unix.Pwrite(m.fd, words, 0); err != nil {
		t.Fatal(err)
	}
	close(s.stdout.done)
	close(s.stderr.done)
	killed, end := s.watch(wire.JobInfo{WallMS: patience.Milliseconds(), CPUMS: patience.Milliseconds(), MemoryBytes: 1 << 20}, time.Now(), nil)
	if killed != "" || !end.left || end.status.ExitStatus() != 3 || end.peak != 1<<16 {
		t.Errorf("got killed %q, %s, %+v, want the exit status 3 that was announced", killed, strconv.Quote(describe(end.status)), end)
	}
}
