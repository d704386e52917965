package docker

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/system"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/wire"
)

// fakeEngine speaks as much of the engine's API as this package uses, over a
// unix socket. It is for what a real engine cannot be made to do: hang, lie,
// die in the middle.
type fakeEngine struct {
	t      *testing.T
	socket string
	server *http.Server
	// pid1 is what runs in each container.
	pid1 func(c *fakeContainer) (exitCode int)

	mu sync.Mutex
	// on replaces the answer to a request; it returns false to let it pass.
	on         map[operation]func(w http.ResponseWriter, r *http.Request) bool
	containers map[string]*fakeContainer // by name
	calls      map[operation]int
	// hung is closed when the test ends: what hangs ends with it.
	hung chan struct{}
}

// fakeContainer is one container.
type fakeContainer struct {
	name   string
	asked  container.CreateRequest
	conn   net.Conn
	in     *bufio.Reader
	killed chan struct{} // closed by kill or remove
	exited chan struct{} // closed when pid1 has returned
	code   int
	oom    bool
	// lateOOM is heard of after the end: it is told, and not noted.
	lateOOM bool
	// paused ends with the kill.
	paused atomic.Bool

	write sync.Mutex
	once  sync.Once
}

func newFakeEngine(t *testing.T) *fakeEngine {
	t.Helper()
	f := &fakeEngine{
		t: t, socket: filepath.Join(t.TempDir(), "d.sock"), hung: make(chan struct{}),
		on:         map[operation]func(http.ResponseWriter, *http.Request) bool{},
		containers: map[string]*fakeContainer{}, calls: map[operation]int{},
	}
	l, err := net.Listen("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	f.server = &http.Server{Handler: f.handler()}
	go func() { _ = f.server.Serve(l) }() // ends with Close
	t.Cleanup(f.stop)
	return f
}

// stop is the death of the engine.
func (f *fakeEngine) stop() {
	f.mu.Lock()
	select {
	case <-f.hung:
	default:
		close(f.hung)
	}
	containers := f.containers
	f.containers = map[string]*fakeContainer{}
	f.mu.Unlock()
	_ = f.server.Close()
	for _, c := range containers {
		c.cut()
		c.kill()
	}
}

// answer sets how the engine answers to op from now on.
func (f *fakeEngine) answer(op operation, how func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on[op] = how
}

// hang makes the engine never answer to op.
func (f *fakeEngine) hang(op operation) {
	f.answer(op, func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-f.hung:
		case <-r.Context().Done():
		}
		return true
	})
}

// fail makes the engine answer op with an error.
func (f *fakeEngine) fail(op operation, status int) {
	f.answer(op, func(w http.ResponseWriter, _ *http.Request) bool {
		reply(w, status, map[string]string{"message": "made to fail"})
		return true
	})
}

func (f *fakeEngine) called(op operation) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

func (f *fakeEngine) get(name string) *fakeContainer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.containers[name]
}

func (f *fakeEngine) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.containers)
}

// brief makes bounds short, for tests in which the engine hangs. They still are
// long enough for one that does not, on a machine that stands still for a while.
func brief(c *Config) {
	const short = 3 * time.Second
	c.CallTimeout, c.StartTimeout, c.ReadyTimeout, c.KillTimeout, c.RemoveTimeout = short, short, short, short, short
}

// open connects to the fake.
func (f *fakeEngine) open(change func(*Config)) *Engine {
	f.t.Helper()
	e, err := f.tryOpen(change)
	if err != nil {
		f.t.Fatalf("Open: %v", err)
	}
	f.t.Cleanup(func() { _ = e.Close() })
	return e
}

func (f *fakeEngine) tryOpen(change func(*Config)) (*Engine, error) {
	cfg := Config{Host: "unix://" + f.socket, Fleet: "fake", Worker: "w"}
	if change != nil {
		change(&cfg)
	}
	return Open(context.Background(), cfg, zap.NewNop())
}

func (f *fakeEngine) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, op operation, h http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			f.calls[op]++
			on := f.on[op]
			f.mu.Unlock()
			if on == nil || !on(w, r) {
				h(w, r)
			}
		})
	}
	handle("/_ping", opPing, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.41") })
	handle("GET /v1.41/info", opInfo, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, goodInfo()) })
	handle("GET /v1.41/images/{name...}", opInspectImage, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, goodImage()) })
	handle("GET /v1.41/containers/json", opList, f.list)
	// Nothing happens until the engine goes, unless a test says otherwise.
	handle("GET /v1.41/events", opWatch, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		if r.URL.Query().Has("until") {
			f.repeat(w, r)
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-f.hung:
		case <-r.Context().Done():
		}
	})
	handle("POST /v1.41/containers/create", opCreate, f.create)
	handle("POST /v1.41/containers/{name}/attach", opAttach, f.with(f.attach))
	handle("POST /v1.41/containers/{name}/wait", opWait, f.with(f.wait))
	handle("POST /v1.41/containers/{name}/start", opStart, f.with(f.start))
	// An engine that agrees and does nothing.
	handle("POST /v1.41/containers/{name}/update", opUpdate, f.with(func(w http.ResponseWriter, _ *http.Request, _ *fakeContainer) {
		reply(w, 200, container.UpdateResponse{})
	}))
	handle("GET /v1.41/containers/{name}/json", opInspect, f.with(f.inspect))
	handle("POST /v1.41/containers/{name}/kill", opKill, f.with(func(w http.ResponseWriter, _ *http.Request, c *fakeContainer) {
		c.kill()
		w.WriteHeader(204)
	}))
	handle("DELETE /v1.41/containers/{name}", opRemove, f.with(func(w http.ResponseWriter, _ *http.Request, c *fakeContainer) {
		c.kill()
		c.cut()
		f.mu.Lock()
		delete(f.containers, c.name)
		f.mu.Unlock()
		w.WriteHeader(204)
	}))
	return mux
}

func goodInfo() system.Info {
	return system.Info{
		OSType: "linux", Architecture: runtime.GOARCH, ServerVersion: "20.10", KernelVersion: "6", CgroupVersion: "2",
		DefaultRuntime: "runc", Runtimes: map[string]system.RuntimeWithStatus{"runc": {}},
		SecurityOptions: []string{"name=seccomp,profile=default"},
		MemoryLimit:     true, SwapLimit: true, PidsLimit: true, CPUCfsPeriod: true, CPUCfsQuota: true,
	}
}

func goodImage() image.InspectResponse {
	return image.InspectResponse{ID: "sha256:" + strings.Repeat("a", 64), Config: &dockerspec.DockerOCIImageConfig{}}
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that is gone does not matter
}

// with looks the container up, by name or by id, which are the same here.
func (f *fakeEngine) with(h func(http.ResponseWriter, *http.Request, *fakeContainer)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := f.get(r.PathValue("name"))
		if c == nil {
			reply(w, 404, map[string]string{"message": "no such container"})
			return
		}
		h(w, r, c)
	}
}

func (f *fakeEngine) create(w http.ResponseWriter, r *http.Request) {
	c := &fakeContainer{name: r.URL.Query().Get("name"), killed: make(chan struct{}), exited: make(chan struct{})}
	if err := json.NewDecoder(r.Body).Decode(&c.asked); err != nil {
		reply(w, 400, map[string]string{"message": err.Error()})
		return
	}
	f.mu.Lock()
	f.containers[c.name] = c
	f.mu.Unlock()
	reply(w, 201, container.CreateResponse{ID: c.name})
}

func (f *fakeEngine) attach(w http.ResponseWriter, _ *http.Request, c *fakeContainer) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		f.t.Errorf("hijack: %v", err)
		return
	}
	c.conn, c.in = conn, buf.Reader
	_, _ = io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
}

func (f *fakeEngine) wait(w http.ResponseWriter, r *http.Request, c *fakeContainer) {
	w.Header().Set("Content-Type", "application/json")
	_ = http.NewResponseController(w).Flush()
	select {
	case <-c.exited:
		_ = json.NewEncoder(w).Encode(container.WaitResponse{StatusCode: int64(c.code)})
	case <-f.hung:
	case <-r.Context().Done():
	}
}

func (f *fakeEngine) start(w http.ResponseWriter, _ *http.Request, c *fakeContainer) {
	go func() {
		c.code = f.pid1(c)
		close(c.exited)
		c.cut()
	}()
	w.WriteHeader(204)
}

func (f *fakeEngine) inspect(w http.ResponseWriter, _ *http.Request, c *fakeContainer) {
	state := &container.State{Running: true, Paused: c.paused.Load()}
	select {
	case <-c.exited:
		state = &container.State{ExitCode: c.code, OOMKilled: c.oom}
	default:
	}
	reply(w, 200, container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{
			ID: c.name, Name: "/" + c.name, Image: c.asked.Image, State: state, HostConfig: c.asked.HostConfig,
		},
		Config: c.asked.Config, NetworkSettings: &container.NetworkSettings{},
	})
}

// repeat answers with the events of the past that were asked for.
func (f *fakeEngine) repeat(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, c := range f.containers {
		if c.lateOOM && r.URL.Query().Get("filters") == `{"container":{"`+name+`":true},"event":{"oom":true}}` {
			_, _ = io.WriteString(w, `{"Type":"container","Action":"oom"}`+"\n") // a client that is gone does not matter
		}
	}
}

func (f *fakeEngine) list(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := []container.Summary{}
	for name, c := range f.containers {
		found = append(found, container.Summary{ID: name, Names: []string{"/" + name}, Labels: c.asked.Labels})
	}
	reply(w, 200, found)
}

func (c *fakeContainer) kill() {
	c.once.Do(func() {
		c.paused.Store(false)
		close(c.killed)
	})
}

// cut ends the attached stream.
func (c *fakeContainer) cut() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// raw writes one chunk of a stream as an engine does.
func (c *fakeContainer) raw(stream byte, data []byte) error {
	header := [demuxHeader]byte{stream}
	binary.BigEndian.PutUint32(header[4:], uint32(len(data)))
	c.write.Lock()
	defer c.write.Unlock()
	if _, err := c.conn.Write(append(header[:], data...)); err != nil {
		return fmt.Errorf("container: %w", err)
	}
	return nil
}

// send writes frames as one chunk of stdout.
func (c *fakeContainer) send(frames ...[]byte) { _ = c.raw(streamStdout, joined(frames...)) }

func joined(parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// frame is a well-formed frame.
func frame(t wire.Type, payload string) []byte {
	head := make([]byte, wire.HeaderSize)
	head[0] = byte(t)
	binary.BigEndian.PutUint32(head[1:], uint32(len(payload)))
	return append(head, payload...)
}

const (
	readyText = `{"v":2,"python":"3.13.0","tracer":"1","cgroup":"v2"}`
	endText   = `{"exited":true,"exit_code":0}`
)

// supervised runs do once the container has said READY and been given a job.
func supervised(do func(c *fakeContainer, j wire.JobInfo) int) func(*fakeContainer) int {
	return func(c *fakeContainer) int {
		c.send(frame(wire.Ready, readyText))
		f, err := wire.NewDecoder(c.in).Next()
		var info wire.JobInfo
		if err != nil || f.Type != wire.Job || json.Unmarshal(f.Payload, &info) != nil {
			return 1
		}
		return do(c, info)
	}
}

// untilKilled waits for SIGKILL.
func (c *fakeContainer) untilKilled() int {
	<-c.killed
	return killedExit
}

// launchFake launches a sandbox on the fake, closed at the end.
func launchFake(t *testing.T, e *Engine) *box {
	t.Helper()
	s, err := e.Launch(context.Background(), job.DefaultLimits())
	if err != nil {
		t.Fatalf("Launch: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.(*box)
}
