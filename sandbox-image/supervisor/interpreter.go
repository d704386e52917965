//go:build linux

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The interpreter's descriptors, in order:
//
//	0 1 2  pipes: stdin, stdout, stderr
//	3      control: a socket. The tracer writes one line of JSON (hello) when it
//	       is up, reads one line of JSON (control), and writes one byte when the
//	       program starts
//	4      the trace memory
//
// The tracer closes 3 and 4 before the program runs.
type interpreter struct {
	pid     int
	stdin   *os.File
	stdout  *os.File
	stderr  *os.File
	control *os.File
	memory  *traceMemory
}

// hello is the tracer's greeting.
type hello struct {
	Python string `json:"python"`
	Tracer string `json:"tracer"`
}

// interpreterArgs is the command line that starts the tracer: a plain run of
// a file, with the option on which tracefleet.pth starts the
// tracer from the interpreter's site phase. The file need not exist yet; the tracer puts the job's in its place.
func interpreterArgs() []string {
	return []string{pythonPath, "-X", "tracefleet", "main.py"}
}

// interpreterEnv is the whole environment of the program.
func interpreterEnv() []string {
	return []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8"}
}

// spawn starts args in a session of its own with folder as working directory.
func spawn(args []string, folder string) (*interpreter, error) {
	memory, err := newTraceMemory()
	if err != nil {
		return nil, err
	}
	p := &interpreter{memory: memory}
	var far [4]int // the interpreter's ends of stdin, stdout, stderr, control
	for i, end := range []**os.File{&p.stdin, &p.stdout, &p.stderr, &p.control} {
		var pair [2]int
		if i == 3 {
			pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		} else {
			err = unix.Pipe2(pair[:], unix.O_CLOEXEC)
		}
		if err != nil {
			return nil, fmt.Errorf("make descriptor %d of the interpreter: %w", i, err)
		}
		near := pair[0]
		far[i] = pair[1]
		if i == 0 {
			near, far[i] = pair[1], pair[0]
		}
		// Only the near end: the far one is the program's, who expects it to block.
		if err := unix.SetNonblock(near, true); err != nil {
			return nil, fmt.Errorf("set descriptor %d non-blocking: %w", i, err)
		}
		*end = os.NewFile(uintptr(near), "descriptor "+strconv.Itoa(i))
	}
	p.pid, err = forkExec(args[0], args, &syscall.ProcAttr{
		Dir:   folder,
		Env:   interpreterEnv(),
		Files: []uintptr{uintptr(far[0]), uintptr(far[1]), uintptr(far[2]), uintptr(far[3]), uintptr(memory.fd)},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	for _, fd := range far {
		_ = unix.Close(fd) // ours are copies; the interpreter holds its own
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	return p, nil
}

// forkExec is syscall.ForkExec for a process that finds all signals as they are by default. The blocked ones are the thread's.
func forkExec(path string, args []string, attr *syscall.ProcAttr) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := resetSignals(); err != nil {
		return 0, err
	}
	return syscall.ForkExec(path, args, attr)
}

// offer makes the interpreter, and with it the program's own processes, die for
// memory before PID 1 does. It must have greeted: until its exec is quite over
// the kernel takes it for a part of this process, which is not dumpable, and
// refuses the file. ForkExec returns a moment before that.
func (p *interpreter) offer() error {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.pid), []byte("1000"), 0); err != nil {
		return fmt.Errorf("make the interpreter first for the out-of-memory killer: %w", err)
	}
	return nil
}

// awaitHello reads the tracer's greeting. When the interpreter dies instead,
// the error carries the end of what it wrote to stderr.
func (p *interpreter) awaitHello(r *reaper) (hello, error) {
	var h hello
	line, err := p.readLine(helloTimeout)
	if err == nil {
		err = json.Unmarshal(line, &h)
	}
	if err == nil && h.Python != "" {
		return h, nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return h, fmt.Errorf("the tracer said nothing for %v", helloTimeout)
	}
	select {
	case e := <-r.main:
		return h, fmt.Errorf("the interpreter did not start: %s: %s", describe(e.status), p.lastWords())
	case <-time.After(time.Second):
		return h, fmt.Errorf("the tracer's greeting is no good: %q: %v", line, err)
	}
}

// readLine returns what the tracer writes up to the end of a line, if that comes within patience. The bound is for this
// line alone: sandboxes wait for their jobs, and programs run, for longer.
func (p *interpreter) readLine(patience time.Duration) ([]byte, error) {
	if err := p.control.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, fmt.Errorf("await the tracer: %w", err)
	}
	line, err := bufio.NewReader(io.LimitReader(p.control, 1024)).ReadSlice('\n')
	return line, cmp.Or(err, p.control.SetReadDeadline(time.Time{}))
}

// lastWords returns the end of what a dead interpreter left in its stderr.
func (p *interpreter) lastWords() string {
	_ = p.stderr.SetReadDeadline(time.Now().Add(time.Second)) // a pipe of ours has deadlines
	said, _ := io.ReadAll(io.LimitReader(p.stderr, 64<<10))   // whatever could be read
	return string(said[max(0, len(said)-2000):])
}

// begin hands the control line over: the program starts. The time of its
// start is the time just before.
func (p *interpreter) begin(line []byte) (time.Time, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(helloTimeout)); err != nil {
		return time.Time{}, fmt.Errorf("start the program: %w", err)
	}
	start := time.Now()
	if _, err := p.control.Write(line); err != nil {
		return time.Time{}, fmt.Errorf("start the program: %w", err)
	}
	return start, nil
}

// started tells whether the interpreter, which has ended, had come as far as
// the program. The tracer closes its end before the program runs, so that the
// program can neither say it nor take it back.
func (p *interpreter) started() bool {
	// The time for the greeting may be over by now: sandboxes wait for their jobs, and programs run, for longer.
	if err := p.control.SetReadDeadline(time.Time{}); err != nil {
		return false
	}
	conn, err := p.control.SyscallConn()
	if err != nil {
		return false
	}
	said := 0
	err = conn.Read(func(fd uintptr) bool {
		said, _ = unix.Read(int(fd), make([]byte, 1)) // it is there by now, or never comes
		return true
	})
	return err == nil && said == 1
}

// describe says how a process ended.
func describe(status unix.WaitStatus) string {
	if status.Signaled() {
		return "signal " + strconv.Itoa(int(status.Signal()))
	}
	return "exit status " + strconv.Itoa(status.ExitStatus())
}
