package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program that was started here.
type process struct {
	cmd *exec.Cmd
	log *output
	// ended is closed when the process is gone.
	ended chan struct{}
}

// output keeps what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write takes a part of the output.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String is the output so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startProcess starts a program, which gets signal when the test binary dies.
func startProcess(signal syscall.Signal, env []string, path string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), log: &output{}, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir()}, env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: signal, Setpgid: true}
	// A grandchild may keep the output open.
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // how it ended is in ProcessState
	}()
	return p, nil
}

// signal sends a signal; one to a process that is gone is no fault.
func (p *process) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s: %w", s, err)
	}
	return nil
}

// wait waits for the end; false means that it did not come.
func (p *process) wait(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// patience bounds what must happen in the end, on a machine that is busy with other things.
const patience = 4 * time.Minute

// pause waits for a time, or until the test is over.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// until asks every so often until the condition holds, and tells whether it did in time. state is what was there last.
func until(t *testing.T, within, every time.Duration, condition func(ctx context.Context) (holds bool, state string)) (held bool, state string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for {
		holds, state := condition(ctx)
		if holds || ctx.Err() != nil {
			return holds, state
		}
		pause(ctx, every)
	}
}
