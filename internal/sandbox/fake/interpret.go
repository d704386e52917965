package fake

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/wire"
)

// directiveMark starts the comment lines that say what the program beside them does.
const directiveMark = "#: "

// program is the state of one interpreted run.
type program struct {
	job   job.Job
	out   sandbox.Outcome
	end   wire.EndInfo
	files map[string]bool
	ended bool
}

// interpret follows the directives of j's entrypoint.
func interpret(ctx context.Context, closed <-chan struct{}, j job.Job) (sandbox.Outcome, error) {
	p := &program{job: j, end: wire.EndInfo{Exited: true}, files: map[string]bool{}}
	start := time.Now()
	for line := range strings.Lines(j.Files[j.Entrypoint]) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), directiveMark)
		if !ok {
			continue
		}
		name, arg, _ := strings.Cut(text, " ")
		if name == "hang" {
			if done, err := p.hang(ctx, closed); done {
				return p.out, err
			}
		} else if err := p.follow(name, arg); err != nil {
			return sandbox.Outcome{}, fmt.Errorf("fake sandbox: directive %q: %w", text, err)
		}
		if p.ended {
			break
		}
	}
	p.end.WallMS = time.Since(start).Milliseconds()
	p.end.StdoutBytes, p.end.StderrBytes = p.out.Stdout.Total, p.out.Stderr.Total
	p.out.End = &p.end
	return p.out, nil
}

// hang waits for what ends a program that does not end. done means that the
// run is over without a report.
func (p *program) hang(ctx context.Context, closed <-chan struct{}) (done bool, err error) {
	wall := time.NewTimer(p.job.Limits.Wall())
	defer wall.Stop()
	select {
	case <-ctx.Done():
		p.out.Interrupted = true
		return true, nil
	case <-closed:
		return true, sandbox.ErrClosed
	case <-wall.C:
		p.killed(wire.KilledWall)
		return false, nil
	}
}

// follow obeys one directive.
func (p *program) follow(name, arg string) error {
	switch name {
	case "stdin":
		p.write("stdout", p.job.Stdin)
	case "args":
		for _, a := range p.job.Args {
			p.write("stdout", a+"\n")
		}
	case "flood":
		stream, count, _ := strings.Cut(arg, " ")
		n, err := strconv.Atoi(count)
		if err != nil {
			return err
		}
		p.write(stream, strings.Repeat("x", n))
	case "spin":
		p.end.CPUMS = p.job.Limits.CPUMS
		p.killed(wire.KilledCPU)
	case "grow":
		p.end.OOMKills, p.end.MaxMemoryBytes = 1, p.job.Limits.MemoryBytes
		p.died(syscall.SIGKILL)
	case "raise", "exit":
		n, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		if name == "raise" {
			p.died(syscall.Signal(n))
		} else {
			p.ended, p.end.ExitCode = true, n
		}
	default:
		return p.followText(name, arg)
	}
	return nil
}

// followText obeys a directive whose argument is a string.
func (p *program) followText(name, arg string) error {
	text, err := strconv.Unquote(arg)
	if err != nil {
		return err
	}
	switch name {
	case "stdout", "stderr":
		p.write(name, text)
	case "file":
		p.write("stdout", p.job.Files[text])
	case "touch":
		p.files[text] = true
	case "ls":
		word := "not there\n"
		if p.files[text] {
			word = "there\n"
		}
		p.write("stdout", word)
	default:
		return errors.New("unknown")
	}
	return nil
}

// write writes to a stream, and kills the program when it passes the cap.
func (p *program) write(stream, text string) {
	s, over := &p.out.Stdout, wire.KilledStdout
	if stream == "stderr" {
		s, over = &p.out.Stderr, wire.KilledStderr
	}
	room := max(0, p.job.Limits.OutputBytes-int64(len(s.Data)))
	s.Data = append(s.Data, text[:min(int64(len(text)), room)]...)
	s.Total += int64(len(text))
	if s.Total > p.job.Limits.OutputBytes {
		p.killed(over)
	}
}

// killed ends the program as the supervisor does at a limit.
func (p *program) killed(why string) {
	p.end.Killed = why
	p.died(syscall.SIGKILL)
}

func (p *program) died(by syscall.Signal) {
	p.ended, p.end.Exited, p.end.Signal = true, false, int(by)
}
