//go:build linux

package main

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// shelter makes the supervisor a late choice for the out-of-memory killer, before hide
// takes away the right to. A process may lower its own score as far as the
// container's start allows, and so may the program: equal scores leave the
// choice to the size, and the supervisor is small.
func shelter() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("0"), 0) // where it is refused the program cannot either
}

// hide makes the process non-dumpable: the kernel then refuses /proc/1/mem,
// /proc/1/fd, /proc/1/environ and ptrace to processes of the same user.
func hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("set not dumpable: %w", err)
	}
	return nil
}

// The dispositions of the kernel's signal ABI.
const (
	sigDefault uintptr = 0
	sigIgnore  uintptr = 1
	lastSignal         = 64
)

// kernelSigaction is struct sigaction as the kernel knows it on amd64 and arm64.
type kernelSigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// resetSignals gives this process and the calling thread the state of signals that a program expects to find: none is blocked,
// and none is ignored. Whoever started the engine may have ignored some, and that is handed down to every
// process in a sandbox: what a program does would depend on it.
func resetSignals() error {
	for n := 1; n <= lastSignal; n++ {
		var action kernelSigaction
		if err := changeSignal(n, nil, &action); err != nil {
			return fmt.Errorf("look at signal %d: %w", n, err)
		}
		if action.handler != sigIgnore {
			continue
		}
		if err := changeSignal(n, &kernelSigaction{handler: sigDefault}, nil); err != nil {
			return fmt.Errorf("stop ignoring signal %d: %w", n, err)
		}
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil); err != nil {
		return fmt.Errorf("unblock all signals: %w", err)
	}
	return nil
}

// deafen makes the kernel drop every signal sent to this process, so that a
// flood of them costs the supervisor nothing. It goes past os/signal, which
// would leave handlers for SIGCHLD, SIGSEGV and others in place: each signal
// would wake a thread, and a SIGSEGV sent by a process would end the program.
//
// SIGCHLD gets its default, which drops it as well; ignoring it would make the
// kernel reap children before wait4 sees them. A real fault still kills.
func deafen() error {
	for n := 1; n <= lastSignal; n++ {
		action := kernelSigaction{handler: sigIgnore}
		switch syscall.Signal(n) {
		case unix.SIGKILL, unix.SIGSTOP:
			continue
		case unix.SIGCHLD:
			action.handler = sigDefault
		}
		if err := changeSignal(n, &action, nil); err != nil {
			return fmt.Errorf("ignore signal %d: %w", n, err)
		}
	}
	return nil
}

// changeSignal sets the disposition of signal n, where one is given, and tells the one before, where that is asked for.
func changeSignal(n int, action, before *kernelSigaction) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(before)),
		unsafe.Sizeof(kernelSigaction{}.mask), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
