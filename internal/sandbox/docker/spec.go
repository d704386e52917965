package docker

import (
	"maps"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/strslice"
	"github.com/docker/go-units"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/wire"
)

// host is what a spec takes from the machine and the image: resolved once,
// when the engine is opened.
type host struct {
	// ImageID is the image's content address, "sha256:…".
	ImageID string
	// ImageLabels are the labels of the image; the engine gives them to every
	// container of it.
	ImageLabels map[string]string
	// Runtime is the name of the OCI runtime, never empty.
	Runtime string
	// Seccomp is the text of the seccomp profile.
	Seccomp string
	// AppArmor is true when the engine can confine containers by AppArmor.
	AppArmor bool
	// SELinux is true when it can by SELinux.
	SELinux bool
}

// spec is all that the engine is told about one sandbox.
type spec struct {
	Config     *container.Config
	HostConfig *container.HostConfig
	Network    *network.NetworkingConfig
}

// The places a program can write to, with the mode of their root. runc 1.1
// takes the mode of the image's folder instead, so the image has the same.
const (
	tmpfsJob = "rw,noexec,nosuid,nodev,size=33554432,nr_inodes=4096,mode=1777"
	tmpfsTmp = tmpfsJob
	// multiprocessing keeps its semaphores in /dev/shm.
	tmpfsShm = "rw,noexec,nosuid,nodev,size=8388608,nr_inodes=1024,mode=1777"
)

const shmBytes = 8 << 20

// sandboxUser is the uid and gid of everything inside a sandbox.
const sandboxUser = "64000:64000"

// supervisorPath is the entrypoint of the image.
const supervisorPath = "/supervisor"

// maskedPaths hides what a kernel tells about the machine. The list replaces
// the engine's own, so it holds all that any engine masks by default, which
// older ones do not, and what no Python program needs.
var maskedPaths = []string{
	// Masked by default by current engines.
	"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
	"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware",
	// Stays writable when there is no IPC namespace mount.
	"/dev/mqueue",
	// Tells about the host or its other users.
	"/proc/cmdline", "/proc/config.gz", "/proc/diskstats", "/proc/key-users", "/proc/locks", "/proc/modules",
	"/proc/partitions", "/proc/softirqs", "/proc/swaps",
	// Everything in /sys but the cgroups, which the supervisor reads. The
	// thermal and power meters are below /sys/devices.
	"/sys/block", "/sys/bus", "/sys/class", "/sys/dev", "/sys/devices", "/sys/hypervisor", "/sys/kernel",
	"/sys/module", "/sys/power",
}

// readonlyPaths is the engine's default list, spelled out so that reading it
// back is exact.
var readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}

// newSpec describes a sandbox with the limits of l. It is pure: the same
// arguments give the same spec, field by field.
func newSpec(cfg Config, l job.Limits, h host, t tag) spec {
	labels := maps.Clone(h.ImageLabels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, t.labels())
	return spec{
		Config: &container.Config{
			Image:       h.ImageID,
			Hostname:    "sandbox",
			User:        sandboxUser,
			AttachStdin: true, AttachStdout: true, AttachStderr: true,
			OpenStdin: true, StdinOnce: true,
			Env:             []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8"},
			Entrypoint:      strslice.StrSlice{supervisorPath},
			WorkingDir:      "/job",
			NetworkDisabled: true,
			Healthcheck:     &container.HealthConfig{Test: []string{"NONE"}},
			StopSignal:      "SIGKILL",
			StopTimeout:     new(0),
			Labels:          labels,
		},
		HostConfig: newHostConfig(cfg, l, h),
		Network:    &network.NetworkingConfig{},
	}
}

func newHostConfig(cfg Config, l job.Limits, h host) *container.HostConfig {
	security := []string{"no-new-privileges:true", "seccomp=" + h.Seccomp}
	if h.AppArmor {
		security = append(security, "apparmor=docker-default")
	}
	if h.SELinux {
		security = append(security, "label=type:container_t")
	}
	return &container.HostConfig{
		Runtime:        h.Runtime,
		NetworkMode:    network.NetworkNone,
		IpcMode:        container.IPCModeNone,
		CgroupnsMode:   container.CgroupnsModePrivate,
		CapDrop:        strslice.StrSlice{"ALL"},
		SecurityOpt:    security,
		ReadonlyRootfs: true,
		Tmpfs:          map[string]string{"/job": tmpfsJob, "/tmp": tmpfsTmp, "/dev/shm": tmpfsShm},
		ShmSize:        shmBytes,
		MaskedPaths:    maskedPaths,
		ReadonlyPaths:  readonlyPaths,
		LogConfig:      container.LogConfig{Type: "none"},
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Init:           new(false),
		OomScoreAdj:    500,
		Resources: container.Resources{
			CgroupParent: cfg.CgroupParent,
			Memory:       l.MemoryBytes,
			// Equal to Memory: zero would mean as much swap again.
			MemorySwap:     l.MemoryBytes,
			OomKillDisable: new(false),
			PidsLimit:      new(pidsLimit(h.Runtime, l.Processes)),
			NanoCPUs:       cfg.NanoCPUs,
			Ulimits:        ulimits(l),
		},
	}
}

// pidsLimit is the limit on tasks of a sandbox that allows processes to the job.
func pidsLimit(runtime string, processes int64) int64 {
	if gvisor(runtime) {
		// gVisor dies when its own threads are refused: it needs some for
		// itself and some for each task of the job, whose own bound is
		// innerLimit.
		return 256 + 4*processes
	}
	return wire.SupervisorTasks + processes
}

// innerLimit is the RLIMIT_NPROC that the program gets, 0 for none. The kernel
// counts the tasks of a user over all containers, gVisor those of one sandbox,
// the supervisor's among them.
func innerLimit(runtime string, processes int64) int64 {
	if gvisor(runtime) {
		return wire.SupervisorTasks + processes
	}
	return 0
}

// gvisor tells by an engine's name for a runtime whether it is gVisor's.
func gvisor(runtime string) bool {
	return strings.Contains(runtime, "runsc") || strings.Contains(runtime, "gvisor")
}

// ulimits are those of PID 1. The tracer lowers files and file size to the
// job's before it runs anything. There is no nproc: it counts the processes of
// a user over all containers.
func ulimits(l job.Limits) []*container.Ulimit {
	_, traceMemory := wire.MemoryLayout(l.TraceBytes)
	// The supervisor itself must write the job's files and size the trace memory.
	fileSize := max(l.FileBytes, traceMemory, 8<<20)
	return []*container.Ulimit{
		ulimit("core", 0, 0),
		ulimit("fsize", fileSize, fileSize),
		ulimit("memlock", 64<<10, 64<<10),
		ulimit("msgqueue", 0, 0),
		ulimit("nice", 0, 0),
		ulimit("nofile", 1024, 1024),
		ulimit("rtprio", 0, 0),
		ulimit("stack", 8<<20, 64<<20),
	}
}

func ulimit(name string, soft, hard int64) *container.Ulimit {
	return &units.Ulimit{Name: name, Soft: soft, Hard: hard}
}
