package python

import (
	"bytes"
	"context"
	"crypto/rand"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/redistest"
)

var image = flag.String("image", "tracefleet/sandbox:latest", "sandbox image that the worker uses")

// patience is how long a part of the fleet may take to start or to stop on a busy machine.
const patience = 2 * time.Minute

// TestPrograms sends the programs of tests/programs.py through a fleet of the
// real commands, and asks what Execra's ErrorDetector would make of the results.
func TestPrograms(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin+string(filepath.Separator), "../../worker", "../../enqueuer")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the commands: %v\n%s", err, out)
	}
	redis := redistest.Start(t, redistest.Options{}).URL()
	command(t, filepath.Join(bin, "worker"), "ready", "--redis", redis, "--fleet", "programs-"+rand.Text(), "--image", *image, "--concurrency", "2")
	serving := command(t, filepath.Join(bin, "enqueuer"), "serving ", "serve", "--redis", redis, "--addr", "127.0.0.1:0")
	_, rest, _ := strings.Cut(serving, "serving ")
	url, _, _ := strings.Cut(rest, " ")

	src, err := filepath.Abs("src")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-X", "dev", "-W", "error", "-m", "unittest", "-v", "tests.check_programs")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+src, "PYTHONDONTWRITEBYTECODE=1", "TRACEFLEET_URL="+strings.TrimSuffix(url, "/"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("python3 -m unittest: %v\n%s", err, out)
	}
}

// command starts a command, and stops it at the end of the test. It returns what
// the command has said by the time it says that it is ready.
func command(t *testing.T, path, ready string, args ...string) string {
	t.Helper()
	cmd := exec.Command(path, args...)
	said := &record{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // It may have ended by itself.
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s: %v\n%s", filepath.Base(path), err, said)
			}
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			t.Errorf("%s did not stop:\n%s", filepath.Base(path), said)
			<-ended
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(said.String(), ready) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s is not ready:\n%s", filepath.Base(path), said)
		}
	}
	return said.String()
}

// record keeps what a command says.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}
