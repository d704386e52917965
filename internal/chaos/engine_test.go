package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/sandbox/docker"
)

// engine is a Docker engine of the test's own, which may be broken. It has no network and keeps
// everything in a folder of its own. Its methods that ask it may be called by several goroutines.
type engine struct {
	t      *testing.T
	folder string
	http   *http.Client
	daemon *process
}

// engineWithin bounds the start and the end of the engine.
const engineWithin = patience

// startEngine starts an engine and gives it the sandbox image.
func startEngine(t *testing.T) *engine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("chaos needs an engine of its own, and only root can start one: run this as root")
	}
	folder, err := os.MkdirTemp("", "tracefleet-engine-")
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{t: t, folder: folder}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", e.path("engine.sock"))
	}
	e.http = &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	t.Cleanup(e.end)
	// What the engine of the machine is configured with is not for this one.
	if err := os.WriteFile(e.path("daemon.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.start()
	e.load()
	return e
}

func (e *engine) path(name string) string { return filepath.Join(e.folder, name) }

// host is the engine's address, as in DOCKER_HOST.
func (e *engine) host() string { return "unix://" + e.path("engine.sock") }

// engineTries is how often the engine is started before that is taken for a
// fault: dockerd gives its containerd 15 seconds, which a busy machine may not have.
const engineTries = 3

// start starts the engine, for the first time or again, and waits until it answers.
func (e *engine) start() {
	e.t.Helper()
	for try := 1; ; try++ {
		state := e.tryStart()
		if state == "" {
			return
		}
		if try == engineTries || !e.daemon.wait(time.Millisecond) {
			e.t.Fatalf("dockerd does not answer: %s\n%s", state, e.daemon.log)
		}
		e.t.Logf("dockerd ended (%s); starting it again", state)
	}
}

// tryStart returns why the engine does not answer, or nothing when it does.
func (e *engine) tryStart() (fault string) {
	e.t.Helper()
	daemon, err := startProcess(syscall.SIGTERM, nil, "dockerd", "--config-file", e.path("daemon.json"), "--host", e.host(),
		"--data-root", e.path("data"), "--exec-root", e.path("exec"), "--pidfile", e.path("engine.pid"),
		"--bridge", "none", "--iptables=false", "--ip-forward=false", "--ip-masq=false", "--log-level", "error")
	if err != nil {
		e.t.Fatalf("%v: %s", err, needSetup)
	}
	e.daemon = daemon
	answered := false
	_, state := until(e.t, engineWithin, 100*time.Millisecond, func(ctx context.Context) (bool, string) {
		err := e.ask(ctx, http.MethodGet, "/_ping", nil)
		answered = err == nil
		return answered || daemon.wait(time.Millisecond), fmt.Sprint(err)
	})
	if answered {
		return ""
	}
	return state
}

// load copies the image from the engine of the machine.
func (e *engine) load() {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), engineWithin)
	defer cancel()
	save := exec.CommandContext(ctx, "docker", "save", *image)
	load := exec.CommandContext(ctx, "docker", "--host", e.host(), "load", "--quiet")
	pipe, err := save.StdoutPipe()
	if err != nil {
		e.t.Fatal(err)
	}
	load.Stdin = pipe
	if err := errors.Join(save.Start(), load.Run(), save.Wait()); err != nil {
		e.t.Fatalf("copy the image %s: %v: %s", *image, err, needSetup)
	}
}

// kill ends the engine at once, and with it its containerd, as a crash of the machine's service would.
func (e *engine) kill() {
	e.t.Helper()
	if err := e.daemon.signal(syscall.SIGKILL); err != nil {
		e.t.Fatal(err)
	}
	if !e.daemon.wait(engineWithin) {
		e.t.Fatal("dockerd survived SIGKILL")
	}
}

// end stops the engine in good order, and then what a broken one may have left.
func (e *engine) end() {
	if e.daemon != nil && e.daemon.signal(syscall.SIGTERM) == nil && !e.daemon.wait(engineWithin) {
		e.t.Error("dockerd did not end")
		_ = e.daemon.signal(syscall.SIGKILL)
	}
	e.endChild(e.path("exec/containerd/containerd.pid"))
	for _, pid := range e.shims() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have gone meanwhile
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		e.t.Error(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], e.folder+"/") {
			_ = syscall.Unmount(f[1], syscall.MNT_DETACH)
		}
	}
	if err := os.RemoveAll(e.folder); err != nil {
		e.t.Errorf("remove the engine's folder: %v", err)
	}
}

// endChild ends the process whose id is in a file, if it is one of this engine.
func (e *engine) endChild(file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		return // it has ended in good order
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err == nil && strings.Contains(commandLine(pid), e.folder) {
		_ = syscall.Kill(pid, syscall.SIGTERM) // it may have gone meanwhile
	}
}

// shims are the processes of this engine that each look after a container.
func (e *engine) shims() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		e.t.Error(err)
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err == nil && strings.Contains(commandLine(pid), "containerd-shim") && strings.Contains(commandLine(pid), e.folder) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func commandLine(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "" // it has gone
	}
	return strings.ReplaceAll(string(text), "\x00", " ")
}

// ask asks the engine and decodes the answer unless into is nil.
func (e *engine) ask(ctx context.Context, method, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://engine"+path, nil)
	if err != nil {
		return err
	}
	answer, err := e.http.Do(request)
	if err != nil {
		return fmt.Errorf("ask the engine: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 16<<20))
	switch {
	case err != nil:
		return fmt.Errorf("ask the engine: %w", err)
	case answer.StatusCode >= http.StatusBadRequest:
		return fmt.Errorf("engine: %s %s: %s", method, path, answer.Status)
	case into == nil:
		return nil
	}
	return json.Unmarshal(body, into)
}

// container is one container of the engine, in whatever state.
type container struct {
	ID     string            `json:"Id"`
	State  string            `json:"State"`
	Status string            `json:"Status"`
	Labels map[string]string `json:"Labels"`
}

// worker is the name of the worker that made the container.
func (c container) worker() string { return c.Labels["dev.tracefleet.worker"] }

// launched is when that was.
func (c container) launched() time.Time {
	at, _ := time.Parse(time.RFC3339, c.Labels["dev.tracefleet.launched"]) // a label that cannot be read counts as old
	return at
}

// containers lists all containers of a fleet, dead ones too.
func (e *engine) containers(ctx context.Context, fleet string) ([]container, error) {
	filter, err := json.Marshal(map[string][]string{"label": {docker.LabelFleet + "=" + fleet}})
	if err != nil {
		return nil, err
	}
	var found []container
	err = e.ask(ctx, http.MethodGet, "/containers/json?all=1&filters="+url.QueryEscape(string(filter)), &found)
	return found, err
}
