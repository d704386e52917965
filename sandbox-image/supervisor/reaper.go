//go:build linux

package main

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ending is how and when the interpreter ended.
type ending struct {
	status unix.WaitStatus
	at     time.Time
	// left is true when the interpreter has only said that it ends, and peak what it said of its memory.
	left bool
	peak int64
}

// exitStatus is the wait status of a process that exited with code.
func exitStatus(code int) unix.WaitStatus { return unix.WaitStatus(code << 8) }

// reaper waits for every process of the sandbox. It blocks in wait4 instead of
// listening to SIGCHLD, which the program can send in floods.
type reaper struct {
	pid int
	// main gets the interpreter's ending.
	main chan ending
	// empty is closed when no process is left.
	empty chan struct{}
	cpu   atomic.Int64
	rss   atomic.Int64
}

func newReaper(pid int) *reaper {
	return &reaper{pid: pid, main: make(chan ending, 1), empty: make(chan struct{})}
}

// run reaps until no process is left.
func (r *reaper) run() {
	defer close(r.empty)
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		pid, err := unix.Wait4(-1, &status, unix.WALL, &usage)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return // ECHILD
		}
		r.cpu.Add(usage.Utime.Nano() + usage.Stime.Nano())
		r.rss.Store(max(r.rss.Load(), usage.Maxrss<<10))
		if pid == r.pid {
			r.main <- ending{status: status, at: time.Now()}
		}
	}
}

// reapedCPU is the processor time of all processes reaped so far and of those
// that they themselves had waited for.
func (r *reaper) reapedCPU() time.Duration { return time.Duration(r.cpu.Load()) }

// reapedPeak is the largest resident size of a reaped process in bytes.
func (r *reaper) reapedPeak() int64 { return r.rss.Load() }

// killEverything kills every process of the pid namespace but this one. Only
// PID 1 may call it.
func killEverything() {
	_ = unix.Kill(-1, unix.SIGKILL) // fails only when nobody is left
}

// stopEverything stops every process of the pid namespace but this one: none runs on until it is killed. Only
// PID 1 may call it.
func stopEverything() {
	_ = unix.Kill(-1, unix.SIGSTOP) // fails only when nobody is left
}

// clear kills everything until no process is left, at most for killTimeout.
// One call is enough on Linux, where no fork can slip past it; the repetition
// is for kernels that promise less.
func (r *reaper) clear(killAll func()) {
	deadline := time.NewTimer(killTimeout)
	defer deadline.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		killAll()
		select {
		case <-r.empty:
			return
		case <-deadline.C:
			return // the worker removes the container and whatever hangs in it
		case <-again.C:
		}
	}
}
