package docker

import (
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/system"
	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/wire"
)

func testHost() host {
	return host{ImageID: "sha256:" + strings.Repeat("1", 64), Runtime: "runc", Seccomp: "(the profile)"}
}

func testTag() tag {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return tag{Fleet: "fleet", Worker: "worker-1", Instance: "0123456789abcdef01234567", Launched: at, Deadline: at.Add(time.Hour)}
}

// TestSpecGolden keeps every field that the engine is told: a weaker setting
// shows as a changed line.
func TestSpecGolden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		cfg    Config
		limits job.Limits
		host   func(*host)
	}{
		{"default", Config{}, job.DefaultLimits(), nil},
		{"smallest", Config{}, job.MinLimits(), nil},
		{"largest", Config{CgroupParent: "/tracefleet", NanoCPUs: 2_500_000_000}, job.MaxLimits(), func(h *host) {
			h.AppArmor = true
			h.ImageLabels = map[string]string{"org.opencontainers.image.title": "sandbox"}
		}},
		{"selinux", Config{}, job.DefaultLimits(), func(h *host) { h.SELinux = true }},
		{"gvisor", Config{}, job.DefaultLimits(), func(h *host) { h.Runtime = "runsc" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := testHost()
			if c.host != nil {
				c.host(&h)
			}
			golden(t, "spec-"+c.name+".json", indented(t, newSpec(c.cfg.WithDefaults(), c.limits, h, testTag())))
		})
	}
}

func TestSpecIsPure(t *testing.T) {
	t.Parallel()
	cfg, h := Config{}.WithDefaults(), testHost()
	h.ImageLabels = map[string]string{"a": "b"}
	first := newSpec(cfg, job.DefaultLimits(), h, testTag())
	first.Config.Labels["c"] = "d"
	if diff := cmp.Diff(map[string]string{"a": "b"}, h.ImageLabels); diff != "" {
		t.Errorf("the image's labels were changed (-want +got):\n%s", diff)
	}
	want, got := newSpec(cfg, job.DefaultLimits(), h, testTag()), newSpec(cfg, job.DefaultLimits(), h, testTag())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("two specs from the same arguments (-first +second):\n%s", diff)
	}
}

// TestSpecNeverOpens spells out what no golden update may lose.
func TestSpecNeverOpens(t *testing.T) {
	t.Parallel()
	s := newSpec(Config{}.WithDefaults(), job.DefaultLimits(), testHost(), testTag())
	h, c := s.HostConfig, s.Config
	for what, ok := range map[string]bool{
		"not privileged":             !h.Privileged,
		"no capabilities":            len(h.CapAdd) == 0 && cmp.Equal([]string(h.CapDrop), []string{"ALL"}),
		"no new privileges":          cmp.Equal(h.SecurityOpt, []string{"no-new-privileges:true", "seccomp=(the profile)"}),
		"read-only root":             h.ReadonlyRootfs,
		"no network":                 h.NetworkMode == "none" && c.NetworkDisabled && len(s.Network.EndpointsConfig) == 0,
		"no shared namespaces":       h.IpcMode == "none" && h.PidMode == "" && h.UTSMode == "" && h.CgroupnsMode == "private" && h.UsernsMode == "",
		"nothing of the host inside": len(h.Binds)+len(h.Mounts)+len(h.VolumesFrom)+len(h.Devices)+len(h.DeviceRequests)+len(h.DeviceCgroupRules) == 0,
		"no swap":                    h.Memory > 0 && h.MemorySwap == h.Memory,
		"no log on the host":         h.LogConfig.Type == "none",
		"no second life":             !h.AutoRemove && h.RestartPolicy.Name == "no",
		"not root":                   c.User == "64000:64000",
		"no terminal":                !c.Tty,
		"an explicit environment":    len(c.Env) == 3,
		"an image by its content":    strings.HasPrefix(c.Image, "sha256:"),
	} {
		if !ok {
			t.Errorf("want %s", what)
		}
	}
	for place, options := range h.Tmpfs {
		for _, option := range []string{"noexec", "nosuid", "nodev", "size=", "nr_inodes="} {
			if !strings.Contains(options, option) {
				t.Errorf("%s: got %q, want %s", place, options, option)
			}
		}
	}
	for _, limit := range h.Ulimits {
		if limit.Name == "nproc" {
			t.Error("got a limit on processes that counts those of other sandboxes")
		}
	}
}

// TestFileSizeLeavesRoomForSupervisor checks that the limit on file size, which
// holds for memfds too, never keeps the supervisor from sizing the trace memory.
func TestFileSizeLeavesRoomForSupervisor(t *testing.T) {
	t.Parallel()
	l := job.MaxLimits()
	l.FileBytes = 0
	_, memory := wire.MemoryLayout(l.TraceBytes)
	for _, limit := range ulimits(l) {
		if limit.Name == "fsize" && limit.Hard < memory {
			t.Errorf("got a file size limit of %d, want at least the trace memory's %d", limit.Hard, memory)
		}
	}
}

func TestPidsLimit(t *testing.T) {
	t.Parallel()
	if got := pidsLimit("runc", 64); got != 64+wire.SupervisorTasks {
		t.Errorf("runc: got %d, want the job's processes and the supervisor's threads", got)
	}
	for _, runtime := range []string{"runsc", "runsc-kvm"} {
		if got := pidsLimit(runtime, 64); got < 256 {
			t.Errorf("%s: got %d, want room for the Sentry's threads", runtime, got)
		}
	}
}

func TestFactsTellGVisor(t *testing.T) {
	t.Parallel()
	for runtime, want := range map[string]bool{"runsc": true, "runsc-kvm": true, "gvisor": true, "runc": false, "": false} {
		if got := newFacts(system.Info{DefaultRuntime: "runc"}, "", Config{Runtime: runtime}, "").GVisor; got != want {
			t.Errorf("%q: got %v, want %v", runtime, got, want)
		}
	}
}

func TestTagRoundTrip(t *testing.T) {
	t.Parallel()
	want := testTag()
	got, ok := parseTag(want.labels(), want.Fleet)
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("ok %v (-want +got):\n%s", ok, diff)
	}
	for name, labels := range map[string]map[string]string{
		"none":           nil,
		"another fleet":  (tag{Fleet: "other", Instance: "i"}).labels(),
		"no instance":    {LabelFleet: want.Fleet},
		"only the start": {LabelFleet: want.Fleet + "-2", labelInstance: "i"},
	} {
		if _, ok := parseTag(labels, want.Fleet); ok {
			t.Errorf("%s: taken for ours", name)
		}
	}
	if _, ok := parseTag(map[string]string{LabelFleet: "", labelInstance: "i"}, ""); ok {
		t.Error("no fleet: taken for ours")
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	if err := (Config{Worker: "w"}).WithDefaults().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	bad := Config{Fleet: "no spaces", Worker: "", NanoCPUs: -1, CallTimeout: -time.Second}
	bad = bad.WithDefaults()
	err := bad.Validate()
	for _, field := range []string{"fleet", "worker", "nano_cpus", "call_timeout"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want %s named", err, field)
		}
	}
}
