package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a command of ours that runs until it is stopped.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *output
	// ended is closed when the process is gone, after err was set.
	ended chan struct{}
	err   error
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

// startProcess starts a command with nothing in its environment but what
// finding programs and the engine needs.
func startProcess(t *testing.T, name, path string, env []string, args ...string) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(path, args...), log: &output{}, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = p.log, p.log, append(environment(), env...)
	// A test binary that is killed must not leave workers behind.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p
}

func environment() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "NO_COLOR=1"}
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		env = append(env, "DOCKER_HOST="+host)
	}
	return env
}

// signal sends a signal; one to a process that is gone is no fault.
func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal %s: %v", p.name, err)
	}
}

// wait waits for the end and returns the exit code, -1 after a signal. A
// process that does not end in time is killed, and the test fails.
func (p *process) wait(t *testing.T, within time.Duration) int {
	t.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		t.Errorf("%s was still running after %s", p.name, within)
		p.signal(t, syscall.SIGKILL)
		<-p.ended
	}
	return p.cmd.ProcessState.ExitCode()
}

// running tells whether the process has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// peakMemory is the largest resident size of the process so far, in bytes.
func (p *process) peakMemory(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if size, found := strings.CutPrefix(line, "VmHWM:"); found {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(size), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	t.Fatal("no VmHWM in the status of the process")
	return 0
}

// eventually asks until the condition holds. state says what is there instead; it is shown when
// the time is over.
func eventually(t *testing.T, what string, within time.Duration, condition func(ctx context.Context) (holds bool, state any)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		holds, state := condition(ctx)
		if holds {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited %s for %s; got %v", within, what, state)
		case <-tick.C:
		}
	}
}
