//go:build linux

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execra/tracefleet/internal/wire"
)

// session runs the one job of this sandbox.
type session struct {
	python  *interpreter
	reaper  *reaper
	out     *frameWriter
	stdout  *relay
	stderr  *relay
	meter   *meter
	killAll func()
	stopAll func()
	// hangup is closed when the worker wants the job no more, or is dead.
	hangup <-chan struct{}
}

// run hands the job to the interpreter and returns when END is out. What is left then dies with PID 1.
func (s *session) run(info wire.JobInfo) error {
	line, err := s.prepare(jobFolder, info)
	if err != nil {
		return err
	}
	large := inputSize(info) > 256<<10
	info.Files = nil
	if large {
		debug.FreeOSMemory() // the program's memory limit is ours as well
	}
	past := make(chan string, 2) // one name of each stream
	go s.stdout.run(s.python.stdout, info.OutputBytes, s.out, past)
	go s.stderr.run(s.python.stderr, info.OutputBytes, s.out, past)
	start, err := s.python.begin(line)
	if err != nil {
		return err
	}
	go feed(s.python.stdin, info.Stdin)

	killed, end := s.watch(info, start, past)
	s.out.hold()
	s.clear(end)
	if killed == wire.KilledNot && end.status.Exited() && !s.python.started() {
		return fmt.Errorf("the tracer did not start the program: %s: %s", describe(end.status), s.stderr.last())
	}
	report := s.report(killed, start, end)
	if err := s.python.memory.send(s.out); err != nil {
		return err
	}
	return s.out.sendJSON(wire.End, report)
}

// clear ends what is left. A program that has left is only stopped and not waited for: its streams have ended, so nobody
// can add to them, and what it may have written to the trace memory since it could have written before. The kernel takes
// as long to take its address space to pieces as a small program runs, and begins when the report is out.
func (s *session) clear(end ending) {
	if end.left {
		s.stopAll()
		s.meter.part(end.peak)
		return
	}
	s.reaper.clear(s.killAll)
	s.drain()
}

// prepare puts the job's files below folder, makes the trace memory, and returns
// the line that starts the program.
func (s *session) prepare(folder string, info wire.JobInfo) ([]byte, error) {
	if err := writeFiles(folder, info.Files); err != nil {
		return nil, err
	}
	size, err := s.python.memory.size(info.TraceBytes)
	if err != nil {
		return nil, err
	}
	return controlLine(info, s.python.memory.areas[:], size, monotonic())
}

// report says what was seen. All processes are gone or stopped, and both streams have ended.
func (s *session) report(killed string, start time.Time, end ending) wire.EndInfo {
	report := wire.EndInfo{
		Exited: end.status.Exited(), Killed: killed, WallMS: end.at.Sub(start).Milliseconds(),
		StdoutBytes: s.stdout.total, StderrBytes: s.stderr.total,
	}
	if report.Exited {
		report.ExitCode = end.status.ExitStatus()
	} else {
		report.Signal = int(end.status.Signal())
	}
	// What was in the pipes when the program ended counts like what was read before.
	for _, r := range []*relay{s.stdout, s.stderr} {
		if report.Killed == "" && r.over() {
			report.Killed = r.name
		}
	}
	s.meter.fill(&report)
	return report
}

// inputSize is how many bytes a job brought.
func inputSize(info wire.JobInfo) int {
	n := len(info.Stdin)
	for _, data := range info.Files {
		n += len(data)
	}
	return n
}

// watch waits until the interpreter has ended or said that it does, and kills everything when a limit
// is passed. It returns the first reason to kill and the ending.
func (s *session) watch(info wire.JobInfo, start time.Time, past <-chan string) (killed string, end ending) {
	wall := time.NewTimer(time.Until(start.Add(time.Duration(info.WallMS) * time.Millisecond)))
	defer wall.Stop()
	look := time.NewTimer(s.meter.patience())
	defer look.Stop()
	var unkillable <-chan time.Time
	kill := func(reason string) {
		if len(s.reaper.main) > 0 {
			return // it has ended; who looked late must not say otherwise
		}
		if killed == "" {
			killed, unkillable = reason, time.After(killTimeout)
		}
		s.killAll()
	}
	limit := time.Duration(info.CPUMS) * time.Millisecond
	hangup := s.hangup
	closed := s.stdout.done
	for {
		select {
		case end = <-s.reaper.main:
			return killed, end
		case <-closed:
			if closed == s.stdout.done {
				closed = s.stderr.done
				continue
			}
			closed = nil
			if end, left := s.farewell(info.MemoryBytes); left && killed == "" {
				return killed, end
			}
		case <-wall.C:
			kill(wire.KilledWall)
		case name := <-past:
			kill(name)
		case <-hangup:
			hangup = nil
			kill(wire.KilledHangup)
		case <-look.C:
			// A program that has closed its output may go on for long. An error shows at the end.
			_ = s.out.flush()
			left := limit - s.meter.look()
			if left < 0 {
				kill(wire.KilledCPU)
			}
			look.Reset(nextLook(left, time.Since(start)))
		case <-unkillable:
			// Stuck in the kernel. The worker removes the container.
			return killed, ending{status: unix.WaitStatus(unix.SIGKILL), at: time.Now()}
		}
	}
}

// farewell returns the ending that the interpreter announced, with no more memory than it had. It counts only when both
// streams have ended, which they do right after it: a process that holds them may have more to say, and is waited for.
func (s *session) farewell(memory int64) (ending, bool) {
	said, ok := s.python.memory.farewell()
	ok = ok && said.PID == s.python.pid
	return ending{status: exitStatus(said.ExitCode), at: time.Now(), left: true, peak: min(said.PeakBytes, memory)}, ok
}

const (
	firstLook   = 2 * time.Millisecond
	longestLook = 50 * time.Millisecond
)

// nextLook returns when to look at the counters again: sooner when the CPU
// time that is left could be used up sooner on all processors, and more often
// in a program's first moments, when the number of processes changes most.
func nextLook(left, age time.Duration) time.Duration {
	soonest := left / time.Duration(runtime.NumCPU())
	return max(firstLook, min(soonest, age/2, longestLook))
}

// drain waits until both streams have ended. All writers are dead, so what is
// left is in the pipes; the bound is for a writer that could not be killed and
// for a worker that stopped reading.
func (s *session) drain() {
	bound := time.AfterFunc(drainTimeout, func() {
		_ = s.python.stdout.Close() // ends the relay; nothing else uses it
		_ = s.python.stderr.Close()
	})
	defer bound.Stop()
	<-s.stdout.done
	<-s.stderr.done
}
