//go:build linux

package main

import (
	"bytes"
	"testing"
)

// TestSignalsOfTheProgram checks that a program finds signals as they are by default, whatever PID 1 of its sandbox was
// started with: an engine hands down what it ignores.
func TestSignalsOfTheProgram(t *testing.T) {
	t.Parallel()
	const look = "print([line.split()[1] for line in open('/proc/self/status') if line.startswith(('SigBlk', 'SigIgn'))])\n"
	want := runCode(t, boxOptions{}, aJob(look)).stdout
	const careless = `import ctypes, os, platform
action, mask = (13, 14) if platform.machine() == "x86_64" else (134, 135)
call = ctypes.CDLL(None).syscall
for number in 1, 2, 10, 15, 17, 32, 33, 34, 64:
    call(action, number, (ctypes.c_uint64 * 4)(1), None, 8)
call(mask, 0, ctypes.byref(ctypes.c_uint64((1 << 64) - 1)), None, 8)
os.execv("/supervisor", ["/supervisor"])
`
	b := startBox(t, boxOptions{extra: []string{"--entrypoint", "/usr/bin/python3"}, args: []string{"-c", careless}})
	if got := b.run(aJob(look)).stdout; !bytes.Equal(got, want) || len(want) == 0 {
		t.Errorf("got blocked and ignored signals %s, want those of a sandbox that was started with none, %s", got, want)
	}
}
