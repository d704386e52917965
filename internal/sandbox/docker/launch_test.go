package docker

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/system"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/wire"
)

// waiting is a supervisor that says READY and waits.
func waiting(c *fakeContainer) int {
	c.send(frame(wire.Ready, readyText))
	return c.untilKilled()
}

// TestEveryRequestHasADeadline hangs the engine at each request of a launch.
func TestEveryRequestHasADeadline(t *testing.T) {
	t.Parallel()
	for _, op := range []operation{opCreate, opAttach, opWait, opStart, opInspect} {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			f := newFakeEngine(t)
			f.pid1 = waiting
			e := f.open(brief)
			f.hang(op)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			s, err := e.Launch(ctx, job.DefaultLimits())
			if err == nil {
				t.Fatalf("got %v, want an error", s)
			}
			if ctx.Err() != nil {
				t.Errorf("took %v and more, want the bounds of the configuration", patience)
			}
			if !strings.Contains(err.Error(), string(op)) {
				t.Errorf("got %v, want %q named", err, op)
			}
			if got := testutil.ToFloat64(e.metrics.engineErrors.WithLabelValues(op.label())); got < 1 {
				t.Errorf("got %v errors counted for %q, want at least 1", got, op)
			}
			gone := op != opInspect // for this one the end cannot be proven
			if n := f.count(); n != 0 && gone {
				t.Errorf("left behind: %d containers", n)
			}
			if quarantined := errors.Is(err, sandbox.ErrQuarantined); quarantined == gone || (e.Quarantined() == 1) == gone {
				t.Errorf("got %v with %d in quarantine, want quarantine %v", err, e.Quarantined(), !gone)
			}
		})
	}
}

// TestFailedLaunchLeavesNothing fails each request of a launch.
func TestFailedLaunchLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, op := range []operation{opCreate, opAttach, opWait, opStart} {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			f := newFakeEngine(t)
			f.pid1 = waiting
			e := f.open(nil)
			f.fail(op, http.StatusBadRequest)
			if _, err := e.Launch(context.Background(), job.DefaultLimits()); err == nil || !strings.Contains(err.Error(), "made to fail") {
				t.Errorf("got %v, want the engine's reason", err)
			}
			if n := f.count(); n != 0 || e.Quarantined() != 0 {
				t.Errorf("left behind: %d containers, %d in quarantine", n, e.Quarantined())
			}
		})
	}
}

// TestLostCreation has the engine make a container and not say so. It was never started, so it takes no slot.
func TestLostCreation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		late bool // whether it appears after its launch was given up
	}{
		"before the launch is given up": {false},
		"after that":                    {true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeEngine(t)
			f.pid1 = waiting
			e := f.open(brief)
			create := make(chan struct{})
			f.answer(opCreate, func(_ http.ResponseWriter, r *http.Request) bool {
				if c.late {
					<-create
				}
				f.create(httptest.NewRecorder(), r)
				<-f.hung
				return true
			})
			if _, err := e.Launch(context.Background(), job.DefaultLimits()); err == nil || errors.Is(err, sandbox.ErrQuarantined) {
				t.Errorf("got %v, want an error other than ErrQuarantined", err)
			}
			if n := f.count(); n != 0 || e.Quarantined() != 0 {
				t.Errorf("got %d containers, %d in quarantine; want none", n, e.Quarantined())
			}
			if !c.late {
				return
			}
			close(create)
			eventually(t, func() string {
				if f.count() == 0 {
					return "it does not exist yet"
				}
				return ""
			})
			if n, err := e.Reap(context.Background()); n != 1 || err != nil || f.count() != 0 {
				t.Errorf("got %d reaped, error %v, %d left; want 1 and none left", n, err, f.count())
			}
		})
	}
}

// TestEngineAway checks that launches which fail because there is no engine take no slots: it may be
// back any moment.
func TestEngineAway(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t)
	f.pid1 = waiting
	e := f.open(brief)
	f.stop()
	for range 3 {
		if _, err := e.Launch(context.Background(), job.DefaultLimits()); err == nil || e.Quarantined() != 0 {
			t.Errorf("got error %v, %d in quarantine; want an error and none", err, e.Quarantined())
		}
	}
}

// patience bounds what must happen in the end, also on a machine that is busy with other things.
const patience = 2 * time.Minute

// eventually polls until check returns "".
func eventually(t *testing.T, check func() string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		last := check()
		if last == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", last)
		}
		<-tick.C
	}
}

func TestLaunchRefuses(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(f *fakeEngine){
		"a warning": func(f *fakeEngine) {
			f.answer(opCreate, func(w http.ResponseWriter, r *http.Request) bool {
				rec := httptest.NewRecorder()
				f.create(rec, r)
				var made container.CreateResponse
				_ = json.Unmarshal(rec.Body.Bytes(), &made)
				made.Warnings = []string{"no swap limit support"}
				reply(w, 201, made)
				return true
			})
		},
		"a setting that was dropped": func(f *fakeEngine) {
			f.answer(opInspect, func(w http.ResponseWriter, r *http.Request) bool {
				if c := f.get(r.PathValue("name")); c != nil {
					c.asked.HostConfig.PidsLimit = nil
				}
				return false
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeEngine(t)
			f.pid1 = waiting
			e := f.open(nil)
			how(f)
			_, err := e.Launch(context.Background(), job.DefaultLimits())
			var refused *RefusedError
			if !errors.As(err, &refused) || !errors.Is(err, sandbox.ErrRefused) {
				t.Errorf("got %v, want a RefusedError", err)
			}
			if n := f.count(); n != 0 {
				t.Errorf("left behind: %d containers", n)
			}
			if got := testutil.ToFloat64(e.metrics.launches.WithLabelValues(launchRefused)); got != 1 {
				t.Errorf("got %v refusals counted, want 1", got)
			}
		})
	}
}

func TestLaunchNeedsReady(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pid1 func(c *fakeContainer) int
		want string
	}{
		"silence":          {(*fakeContainer).untilKilled, "nothing came"},
		"exit":             {func(c *fakeContainer) int { _ = c.raw(streamStderr, []byte("no such file")); return 127 }, "no such file"},
		"FAIL":             {func(c *fakeContainer) int { c.send(frame(wire.Fail, `{"error":"no python"}`)); return 1 }, "no python"},
		"another frame":    {func(c *fakeContainer) int { c.send(frame(wire.Stdout, "x")); return 0 }, `sent 'O'`},
		"garbage":          {func(c *fakeContainer) int { c.send([]byte("hello world")); return 0 }, "unknown frame type"},
		"another protocol": {func(c *fakeContainer) int { c.send(frame(wire.Ready, `{"v":99}`)); return 0 }, "protocol 99"},
		"READY no JSON":    {func(c *fakeContainer) int { c.send(frame(wire.Ready, "yes")); return 0 }, "read READY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeEngine(t)
			f.pid1 = c.pid1
			e := f.open(brief)
			_, err := e.Launch(context.Background(), job.DefaultLimits())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
			if n := f.count(); n != 0 || e.Quarantined() != 0 {
				t.Errorf("left behind: %d containers, %d in quarantine", n, e.Quarantined())
			}
		})
	}
}

// TestCancelledLaunch cancels while the sandbox starts up.
func TestCancelledLaunch(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	draining := errors.New("worker is draining")
	f.pid1 = func(c *fakeContainer) int {
		cancel(draining)
		return c.untilKilled()
	}
	e := f.open(nil)
	_, err := e.Launch(ctx, job.DefaultLimits())
	if !errors.Is(err, context.Canceled) || !errors.Is(err, draining) {
		t.Errorf("got %v, want context.Canceled and its cause", err)
	}
	if n := f.count(); n != 0 {
		t.Errorf("left behind: %d containers", n)
	}
	if got := testutil.ToFloat64(e.metrics.launches.WithLabelValues(launchCanceled)); got != 1 {
		t.Errorf("got %v cancelled launches counted, want 1", got)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	info := func(change func(*system.Info)) func(*fakeEngine) {
		return func(f *fakeEngine) {
			f.answer(opInfo, func(w http.ResponseWriter, _ *http.Request) bool {
				i := goodInfo()
				change(&i)
				reply(w, 200, i)
				return true
			})
		}
	}
	img := func(change func(*image.InspectResponse)) func(*fakeEngine) {
		return func(f *fakeEngine) {
			f.answer(opInspectImage, func(w http.ResponseWriter, _ *http.Request) bool {
				i := goodImage()
				change(&i)
				reply(w, 200, i)
				return true
			})
		}
	}
	for name, c := range map[string]struct {
		how  func(*fakeEngine)
		want string
	}{
		"no image":           {func(f *fakeEngine) { f.fail(opInspectImage, 404) }, "run `make setup`"},
		"no seccomp":         {info(func(i *system.Info) { i.SecurityOptions = nil }), "seccomp"},
		"no memory limit":    {info(func(i *system.Info) { i.MemoryLimit = false }), "memory"},
		"no swap limit":      {info(func(i *system.Info) { i.SwapLimit = false }), "swap"},
		"no pids limit":      {info(func(i *system.Info) { i.PidsLimit = false }), "processes"},
		"no cpu quota":       {info(func(i *system.Info) { i.CPUCfsQuota = false }), "processor"},
		"no such runtime":    {info(func(i *system.Info) { i.DefaultRuntime = "crun" }), `"crun"`},
		"windows":            {info(func(i *system.Info) { i.OSType = "windows" }), "windows"},
		"strange processor":  {info(func(i *system.Info) { i.Architecture = "mips" }), "mips"},
		"volumes in image":   {img(func(i *image.InspectResponse) { i.Config.Volumes = map[string]struct{}{"/v": {}} }), "volumes"},
		"ports in image":     {img(func(i *image.InspectResponse) { i.Config.ExposedPorts = map[string]struct{}{"1/tcp": {}} }), "ports"},
		"image without data": {img(func(i *image.InspectResponse) { i.Config = nil }), "does not describe"},
		"silence":            {func(f *fakeEngine) { f.hang(opPing) }, "does not answer"},
		"no info":            {func(f *fakeEngine) { f.hang(opInfo) }, "info"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeEngine(t)
			c.how(f)
			e, err := f.tryOpen(brief)
			if err == nil || e != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v; want an error with %q", e, err, c.want)
			}
		})
	}
	if _, err := Open(context.Background(), Config{Worker: "w", Host: "unix:///nonexistent/d.sock"}, nil); err == nil ||
		!strings.Contains(err.Error(), "make setup") {
		t.Errorf("no engine: got %v, want advice", err)
	}
}

func TestCloseOfRemovedContainer(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t)
	f.pid1 = waiting
	e := f.open(nil)
	b := launchFake(t, e)
	if err := e.removeOnce(context.Background(), b.name); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("Close: got %v, want nil: it is gone", err)
	}
}

// TestCloseWaitsForRemovalUnderWay has the engine say that it is removing
// already, and take a while.
func TestCloseWaitsForRemovalUnderWay(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t)
	f.pid1 = waiting
	b := launchFake(t, f.open(nil))
	f.fail(opRemove, http.StatusConflict)
	before := f.called(opInspect)
	f.answer(opInspect, func(w http.ResponseWriter, _ *http.Request) bool {
		if f.called(opInspect) < before+3 {
			return false
		}
		reply(w, 404, map[string]string{"message": "gone"})
		return true
	})
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if n := f.called(opInspect) - before; n != 3 {
		t.Errorf("got asked %d times, want until it was gone", n)
	}
}

func TestQuarantineIsRetried(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t)
	f.pid1 = waiting
	registry := prometheus.NewPedanticRegistry()
	e := f.open(func(c *Config) { c.Metrics = NewMetrics(registry) })
	b := launchFake(t, e)
	f.fail(opRemove, http.StatusInternalServerError)
	for range 2 {
		if err := b.Close(); !errors.Is(err, sandbox.ErrQuarantined) {
			t.Fatalf("Close: got %v, want ErrQuarantined", err)
		}
	}
	if n, err := e.Reap(context.Background()); n != 0 || !errors.Is(err, sandbox.ErrQuarantined) {
		t.Errorf("Reap: got %d, %v; want 0 and ErrQuarantined", n, err)
	}
	if got := testutil.ToFloat64(e.metrics.quarantined); got != 1 || e.Quarantined() != 1 {
		t.Errorf("got %v and %d in quarantine, want 1", got, e.Quarantined())
	}
	f.answer(opRemove, nil)
	if n, err := e.Reap(context.Background()); n != 1 || err != nil {
		t.Errorf("Reap: got %d, %v; want 1 and nil", n, err)
	}
	if got := testutil.ToFloat64(e.metrics.quarantined); got != 0 || e.Quarantined() != 0 || f.count() != 0 {
		t.Errorf("got %v and %d in quarantine, %d containers; want none", got, e.Quarantined(), f.count())
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v, %v", problems, err)
	}
}
