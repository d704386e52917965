//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execra/tracefleet/internal/wire"
)

// rehearsedFile is the one file of the rehearsed job.
const rehearsedFile = "rehearsal.py"

// rehearse goes through everything that a job needs of the supervisor, with a
// job of its own and while the interpreter starts. What is done for the first
// time takes many times as long: code and tables are not in memory yet, the
// encoders do not know their types. So the one job that comes does not wait for
// that. Nothing of the rehearsal is left in folder, nor anything sent by out, whose buffer is borrowed.
func rehearse(folder string, cg *cgroup, r *reaper, out *frameWriter) error {
	info, err := rehearsedJob()
	if err != nil {
		return fmt.Errorf("rehearse: %w", err)
	}
	memory, err := newTraceMemory()
	if err != nil {
		return fmt.Errorf("rehearse: %w", err)
	}
	stage := interpreter{memory: memory}
	s := session{
		python: &stage, out: &frameWriter{w: io.Discard, held: *bytes.NewBuffer(out.held.AvailableBuffer())}, meter: newMeter(cg, r),
		stdout: &relay{kind: wire.Stdout, buf: make([]byte, len(rehearsedFile)), done: make(chan struct{})},
		stderr: &relay{kind: wire.Stderr, done: make(chan struct{})},
	}
	close(s.stderr.done)
	if err := errors.Join(s.rehearse(folder, info), unix.Close(memory.fd)); err != nil {
		return fmt.Errorf("rehearse: %w", err)
	}
	return nil
}

// rehearsedJob is a job that has come in a frame.
func rehearsedJob() (info wire.JobInfo, err error) {
	payload, err := json.Marshal(wire.JobInfo{
		Entrypoint: rehearsedFile, Files: map[string][]byte{rehearsedFile: []byte("pass\n")}, Args: []string{""}, Include: []string{"."},
		WallMS: 1, CPUMS: 1, OutputBytes: 1, OpenFiles: 1, Processes: 1, TraceBytes: 1 << 16,
	})
	if err != nil {
		return info, err
	}
	var in bytes.Buffer
	if err := wire.WriteFrame(&in, wire.Job, payload); err != nil {
		return info, err
	}
	return readJob(&in)
}

// rehearse is what session.run does, without a program.
func (s *session) rehearse(folder string, info wire.JobInfo) error {
	if _, err := s.prepare(folder, info); err != nil {
		return err
	}
	if err := os.Remove(folder + "/" + rehearsedFile); err != nil {
		return err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // nothing is lost in it
	s.python.stdout = from
	go s.stdout.run(from, info.OutputBytes, s.out, make(chan string, 1))
	go feed(to, []byte("1\n"))
	s.meter.start()
	s.out.hold()
	<-s.stdout.done
	s.farewell(0)
	s.meter.part(0)
	report := s.report(wire.KilledNot, time.Now(), ending{at: time.Now()})
	if err := s.python.memory.send(s.out); err != nil {
		return err
	}
	return s.out.sendJSON(wire.End, report)
}
