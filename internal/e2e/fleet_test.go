package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/redistest"
)

// How long things may take on a machine that is busy with other tests.
const (
	readyWithin  = 60 * time.Second
	stopWithin   = 60 * time.Second
	resultWithin = 120 * time.Second
	callWithin   = 150 * time.Second
)

// fleet is a Redis of its own and some workers, under a fleet label that
// nobody else uses. Everything is stopped when the test ends, and then no
// container may be left.
type fleet struct {
	t      *testing.T
	name   string
	url    string
	rdb    redis.UniversalClient
	engine *engine
	// workerURL is for the workers when they are another user of Redis; env is added to the environment of all commands.
	workerURL string
	env       []string

	mu      sync.Mutex
	workers []*worker
}

// worker is one worker process.
type worker struct {
	*process
	fleet *fleet
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	return newFleetWith(t, redistest.Options{})
}

// newFleetWith is newFleet with a Redis that is set up otherwise.
func newFleetWith(t *testing.T, o redistest.Options) *fleet {
	t.Helper()
	server := redistest.Start(t, o)
	f := &fleet{t: t, name: "e2e-" + randomHex(), url: server.URL(), rdb: server.Client(), engine: openEngine()}
	t.Cleanup(f.finish)
	return f
}

// finish stops what still runs, looks that nothing is left, and shows the logs of a failed test.
func (f *fleet) finish() {
	f.mu.Lock()
	workers := f.workers
	f.mu.Unlock()
	for _, w := range workers {
		if w.running() {
			w.signal(f.t, syscall.SIGTERM)
		}
	}
	for _, w := range workers {
		if code := w.wait(f.t, stopWithin); code > 0 {
			f.t.Errorf("%s ended with %d, want 0", w.name, code)
		}
	}
	f.wantNoContainers()
	if f.t.Failed() {
		for _, w := range workers {
			f.t.Logf("---- log of %s\n%s", w.name, w.log)
		}
	}
}

// start starts a worker and waits until it takes jobs.
func (f *fleet) start(name string, slots int, flags ...string) *worker {
	f.t.Helper()
	args := append([]string{
		"--redis", cmp.Or(f.workerURL, f.url), "--fleet", f.name, "--name", name, "--image", *image, "--runtime", *runtime, "--concurrency", fmt.Sprint(slots),
	}, flags...)
	w := &worker{process: startProcess(f.t, name, filepath.Join(bin, "worker"), f.env, args...), fleet: f}
	f.mu.Lock()
	f.workers = append(f.workers, w)
	f.mu.Unlock()
	eventually(f.t, name+" to be ready", readyWithin, func(context.Context) (bool, any) {
		if !w.running() {
			f.t.Fatalf("%s ended with %d before it was ready:\n%s", name, w.cmd.ProcessState.ExitCode(), w.log)
		}
		return strings.Contains(w.log.String(), "ready"), w.log
	})
	return w
}

// stop ends a worker the polite way and wants it to agree.
func (w *worker) stop() {
	w.fleet.t.Helper()
	w.signal(w.fleet.t, syscall.SIGTERM)
	if code := w.wait(w.fleet.t, stopWithin); code != 0 {
		w.fleet.t.Errorf("%s ended with %d after SIGTERM, want 0", w.name, code)
	}
}

// kill ends a worker without any warning.
func (w *worker) kill() {
	w.signal(w.fleet.t, syscall.SIGKILL)
	<-w.ended
}

// wantNoContainers fails unless all containers of the fleet are gone.
func (f *fleet) wantNoContainers() {
	f.t.Helper()
	// The test's own context has ended when this runs as a cleanup.
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	left, err := f.engine.containers(ctx, f.name)
	if err != nil {
		f.t.Error(err)
	}
	if len(left) > 0 {
		f.t.Errorf("got %d containers left of fleet %s, want none: %v", len(left), f.name, left)
	}
}

// answer is what one run of the enqueuer gave.
type answer struct {
	stdout, stderr string
	code           int
}

// enqueuer runs the enqueuer against this fleet's Redis.
func (f *fleet) enqueuer(t *testing.T, stdin string, args ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "enqueuer"), append(args[:1:1], append([]string{"--redis", f.url}, args[1:]...)...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = strings.NewReader(stdin), &stdout, &stderr, append(environment(), f.env...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run enqueuer %s: %v", args[0], err)
	}
	return answer{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
}

// done wants the enqueuer to have succeeded, and returns its stdout.
func (a answer) done(t *testing.T) string {
	t.Helper()
	if a.code != 0 {
		t.Fatalf("enqueuer ended with %d, want 0; stderr: %s", a.code, a.stderr)
	}
	return a.stdout
}

// submit puts a Job document into the queue and returns the id that was printed.
func (f *fleet) submit(t *testing.T, document []byte) string {
	t.Helper()
	return strings.TrimSuffix(f.enqueuer(t, string(document), "submit", "--job", "-").done(t), "\n")
}

// fetch waits for the result of a job and returns the document.
func (f *fleet) fetch(t *testing.T, id string) []byte {
	t.Helper()
	return []byte(f.enqueuer(t, "", "get", id, "--wait", resultWithin.String(), "--format", "json").done(t))
}

// result waits for the result of a job and decodes it.
func (f *fleet) result(t *testing.T, id string) job.Result {
	t.Helper()
	var r job.Result
	if err := json.Unmarshal(f.fetch(t, id), &r); err != nil {
		t.Fatalf("result of %s: %v", id, err)
	}
	if r.ID != id {
		t.Errorf("got the result of %s, want that of %s", r.ID, id)
	}
	return r
}

// patient are limits for a program that is to end by itself, also on a machine that is busy with other tests.
var patient = map[string]any{"limits": map[string]any{"wall_ms": 100_000}}

// program makes a Job document of one file, with more top-level keys if given.
func program(t *testing.T, code string, more map[string]any) []byte {
	t.Helper()
	document := map[string]any{"language": "python", "code": code}
	for key, value := range more {
		document[key] = value
	}
	data, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// waitRunning waits until a worker has taken the job.
func (f *fleet) waitRunning(t *testing.T, id string) {
	t.Helper()
	f.waitState(t, id, "running")
}

func (f *fleet) waitState(t *testing.T, id, want string) {
	t.Helper()
	eventually(t, id+" to be "+want, readyWithin, func(ctx context.Context) (bool, any) {
		state, err := f.state(ctx, id)
		return state == want, fmt.Sprint(state, " ", err)
	})
}

// state is what the ledger says of a job.
func (f *fleet) state(ctx context.Context, id string) (string, error) {
	return f.rdb.HGet(ctx, "tf:{"+id+"}", "state").Result()
}

// wantOK fails unless the job ended well with this output.
func wantOK(t *testing.T, r job.Result, stdout string) {
	t.Helper()
	if r.Status != job.StatusOK || r.Stdout != stdout {
		t.Errorf("job %s: got status %s, error %v, stdout %.200q, want ok, %q", r.ID, r.Status, deref(r.Error), r.Stdout, stdout)
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func randomHex() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails, says crypto/rand
	return hex.EncodeToString(b[:])
}
