//go:build linux

// Command supervisor is PID 1 of a sandbox. It starts the interpreter with the
// tracer loaded, says READY, takes one JOB from its standard input, relays what
// the program writes, enforces the limits on time and output, kills everything
// at the end and reports what it saw in END. See package wire for the frames.
//
// The program it guards is hostile and runs under the same user. So the
// supervisor is not dumpable, hears no signal, shares no descriptor with the
// program but the far ends of pipes, maps none of the memory that the program can
// write, and allocates next to nothing once the program runs.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/execra/tracefleet/internal/wire"
)

// Where things are in the image.
const (
	pythonPath = "/usr/bin/python3"
	jobFolder  = "/job"
)

func main() {
	out := newFrameWriter(os.Stdout)
	if err := supervise(os.Stdin, out); err != nil {
		// The worker learns of it by FAIL; without a reader there is nobody to tell.
		_ = out.sendJSON(wire.Fail, wire.FailInfo{Error: clip(err.Error(), 4000)})
		os.Exit(1)
	}
}

// supervise is the whole life of a sandbox. An error means that the sandbox is
// broken; whatever the program does is no error.
func supervise(in io.Reader, out *frameWriter) error {
	if os.Getpid() != 1 {
		return errors.New("the supervisor must be PID 1: at the end it kills every process that it can see")
	}
	shelter()
	if err := hide(); err != nil {
		return err
	}
	settle()
	stdout, stderr := newRelay(wire.Stdout, "stdout"), newRelay(wire.Stderr, "stderr")
	cg := findCgroup("/proc/self")
	defer cg.close()

	python, err := spawn(interpreterArgs(), jobFolder)
	if err != nil {
		return err
	}
	// From here on the interpreter exists, so that it inherited no ignored signal.
	if err := deafen(); err != nil {
		return err
	}
	r := newReaper(python.pid)
	go r.run()
	if err := rehearse(jobFolder, cg, r, out); err != nil {
		return err
	}
	greeting, err := python.awaitHello(r)
	if err != nil {
		return err
	}
	if err := python.offer(); err != nil {
		return err
	}
	m := newMeter(cg, r)
	m.start() // now, because nothing is used while everybody waits, and a job would wait for it
	ready := wire.ReadyInfo{Version: wire.Version, Python: greeting.Python, Tracer: greeting.Tracer, Cgroup: cg.version}
	if err := out.sendJSON(wire.Ready, ready); err != nil {
		return err
	}
	info, hangup, err := awaitJob(in, r, maxIdle)
	if errors.Is(err, io.EOF) {
		return nil // the worker needs this sandbox no more
	}
	if err != nil {
		return err
	}
	s := session{python: python, reaper: r, out: out, stdout: stdout, stderr: stderr,
		meter: m, killAll: killEverything, stopAll: stopEverything, hangup: hangup}
	return s.run(info)
}

// settle makes the runtime small and complete: every thread that will ever be
// needed exists before the program can use up the sandbox's processes, because
// the runtime dies when it cannot make one.
func settle() {
	debug.SetGCPercent(50)
	// On one processor the runtime starts one thread at a time, when it needs it.
	runtime.GOMAXPROCS(1)
	warmThreads(wire.SupervisorTasks)
	runtime.GOMAXPROCS(2)
}

// warmThreads makes the process own total threads: more than the runtime
// needs, which therefore starts no further ones, and a number that the limit on
// tasks can be set by. Counting takes about as long as a thread, so it is done for
// each thread only when few are missing.
func warmThreads(total int64) {
	const few = 3 // the runtime may start threads of its own meanwhile
	release, done := make(chan struct{}), make(chan struct{})
	var n int64
	for n < total {
		missing := total - ownThreads()
		if missing <= 0 {
			break
		}
		for range min(max(1, missing-few), total-n) {
			holdThread(release, done)
			n++
		}
	}
	close(release)
	for range n {
		<-done
	}
}

// holdThread has a goroutine keep a thread for itself until release is closed.
func holdThread(release <-chan struct{}, done chan<- struct{}) {
	held := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(held)
		<-release
		runtime.UnlockOSThread()
		done <- struct{}{}
	}()
	<-held
}

// maxIdle is longer than any worker lets a sandbox wait. An engine that crashes while it starts a container may forget it,
// and then nobody but ourselves is left to end it.
const maxIdle = 30 * time.Minute

// awaitJob reads the JOB frame. It returns io.EOF when the worker hung up
// without one or none came for as long as idle, and an error when the interpreter died while waiting. After a job,
// hangup is closed when the worker closes its end, or sends what it must not.
func awaitJob(in io.Reader, r *reaper, idle time.Duration) (info wire.JobInfo, hangup <-chan struct{}, err error) {
	type answer struct {
		info wire.JobInfo
		err  error
	}
	got := make(chan answer, 1)
	gone := make(chan struct{})
	go func() {
		from := bufio.NewReader(in)
		info, err := readJob(from)
		got <- answer{info, err}
		if err == nil {
			_, _ = from.ReadByte()
		}
		close(gone)
	}()
	patience := time.NewTimer(idle)
	defer patience.Stop()
	select {
	case a := <-got:
		return a.info, gone, a.err
	case <-patience.C:
		return wire.JobInfo{}, nil, io.EOF
	case e := <-r.main:
		return wire.JobInfo{}, nil, fmt.Errorf("the interpreter died while waiting for a job: %s", describe(e.status))
	}
}

// clip cuts s to at most n bytes.
func clip(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

// bounds of the waits that nothing else bounds.
const (
	helloTimeout = 60 * time.Second
	killTimeout  = 3 * time.Second
	drainTimeout = 500 * time.Millisecond
)
