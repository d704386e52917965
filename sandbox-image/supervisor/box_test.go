//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/wire"
)

// image is what `make setup` builds.
const image = "tracefleet/sandbox:latest"

// patience bounds every wait of these tests, on a machine that may be busy with others.
const patience = 5 * time.Minute

// boxOptions are the container's own limits, given to docker run.
type boxOptions struct {
	image  string // instead of the usual one
	memory string
	pids   string
	extra  []string
	args   []string // of the container's own program
}

// box is a started container that has said READY.
type box struct {
	t     testing.TB
	name  string
	stdin io.WriteCloser
	dec   *wire.Decoder
	ready wire.ReadyInfo
	wait  func() error
}

// outcome is everything that a box said after its job.
type outcome struct {
	end    *wire.EndInfo
	fail   string
	stdout []byte
	stderr []byte
	trace  [wire.AreaCount][]byte
	frames int
	took   time.Duration
}

// startBox starts a container and reads its first frame, which must be READY.
func startBox(t testing.TB, o boxOptions) *box {
	t.Helper()
	b := launch(t, o)
	frame, err := b.dec.Next()
	if err != nil || frame.Type != wire.Ready {
		t.Fatalf("first frame: got %c %q, %v, want READY (run make setup for a fresh image)", frame.Type, frame.Payload, err)
	}
	if err := json.Unmarshal(frame.Payload, &b.ready); err != nil {
		t.Fatalf("READY: %v", err)
	}
	return b
}

// launch starts a container with the sandbox's hardening.
func launch(t testing.TB, o boxOptions) *box {
	t.Helper()
	if o.image == "" {
		o.image = image
	}
	if out, err := exec.Command("docker", "image", "inspect", "--format", "{{.Id}}", o.image).CombinedOutput(); err != nil {
		t.Fatalf("no image %s: run make setup: %v: %s", o.image, err, out)
	}
	if o.memory == "" {
		o.memory = "256m"
	}
	if o.pids == "" {
		o.pids = "80"
	}
	name := "supervisor-test-" + rand.Text()
	args := []string{"run", "--interactive", "--rm", "--name", name, "--label", "tracefleet.fleet=" + name,
		"--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--log-driver", "none",
		"--cgroupns", "private", "--ipc", "none", "--oom-score-adj", "500", "--memory", o.memory, "--memory-swap", o.memory, "--pids-limit", o.pids,
		"--tmpfs", "/job:rw,noexec,nosuid,nodev,size=32m,nr_inodes=4096,mode=1777",
		"--tmpfs", "/tmp:rw,noexec,nosuid,nodev,size=32m,nr_inodes=4096,mode=1777",
		"--tmpfs", "/dev/shm:rw,noexec,nosuid,nodev,size=8m,nr_inodes=4096,mode=1777"}
	args = append(append(append(args, o.extra...), o.image), o.args...)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	cmd := exec.CommandContext(ctx, "docker", args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("docker run: %v", err)
	}
	b := &box{t: t, name: name, stdin: stdin, dec: wire.NewDecoder(bufio.NewReaderSize(stdout, 64<<10))}
	b.wait = func() error {
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%w: %s", err, stderr.Bytes())
		}
		return nil
	}
	t.Cleanup(func() {
		// Gone already when all went well.
		_ = exec.Command("docker", "rm", "--force", name).Run()
		cancel()
		_ = cmd.Wait()
		if t.Failed() && stderr.Len() > 0 {
			t.Logf("container's stderr: %s", stderr.Bytes())
		}
	})
	return b
}

// aJob returns a job that runs code under generous limits: a program that is not ended lasts longer than its test has patience.
func aJob(code string) wire.JobInfo {
	return wire.JobInfo{
		Entrypoint: "main.py", Files: map[string][]byte{"main.py": []byte(code)},
		WallMS: 2 * patience.Milliseconds(), CPUMS: 20_000, MemoryBytes: 256 << 20, OutputBytes: 1_000_000, Processes: 64, OpenFiles: 32,
		FileBytes: 16 << 20, TraceEvents: 1000, TraceBytes: 1 << 20, TraceMode: "full", TraceValues: true, Include: []string{"."},
	}
}

// run gives the box its job and reads all that it says.
func (b *box) run(info wire.JobInfo) outcome {
	b.t.Helper()
	payload, err := json.Marshal(info)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.runFrame(wire.Job, payload)
}

func (b *box) runFrame(kind wire.Type, payload []byte) outcome {
	b.t.Helper()
	start := time.Now()
	if err := wire.WriteFrame(b.stdin, kind, payload); err != nil {
		b.t.Fatalf("send the job: %v", err)
	}
	return b.collect(start)
}

func (b *box) collect(start time.Time) outcome {
	b.t.Helper()
	var o outcome
	for {
		frame, err := b.dec.Next()
		if errors.Is(err, io.EOF) {
			return o
		}
		if err != nil {
			b.t.Fatalf("read a frame: %v", err)
		}
		if o.end != nil || o.fail != "" {
			b.t.Fatalf("a %q frame after the last", byte(frame.Type))
		}
		o.frames++
		switch frame.Type {
		case wire.Stdout:
			o.stdout = append(o.stdout, frame.Payload...)
		case wire.Stderr:
			o.stderr = append(o.stderr, frame.Payload...)
		case wire.Trace:
			area := frame.Payload[0]
			o.trace[area] = append(o.trace[area], frame.Payload[1:]...)
		case wire.End:
			o.took = time.Since(start)
			if err := json.Unmarshal(frame.Payload, &o.end); err != nil {
				b.t.Fatalf("END: %v", err)
			}
		case wire.Fail:
			var f wire.FailInfo
			if err := json.Unmarshal(frame.Payload, &f); err != nil {
				b.t.Fatalf("FAIL: %v", err)
			}
			o.fail = f.Error
		default:
			b.t.Fatalf("an unexpected %q frame", byte(frame.Type))
		}
	}
}

// runCode runs one program in a fresh box and insists on END.
func runCode(t *testing.T, o boxOptions, info wire.JobInfo) outcome {
	t.Helper()
	got := startBox(t, o).run(info)
	if got.end == nil {
		t.Fatalf("no END; FAIL %q, stdout %q, stderr %q", got.fail, tail(got.stdout), tail(got.stderr))
	}
	return got
}

func tail(b []byte) []byte { return b[max(0, len(b)-500):] }
