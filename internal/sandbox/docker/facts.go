package docker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/system"
)

// Facts is what the engine said about itself and the image when it was opened.
type Facts struct {
	EngineVersion string
	APIVersion    string
	// OCIRuntime is the runtime that sandboxes get; Runtimes are all that the
	// engine has.
	OCIRuntime string
	Runtimes   []string
	// GVisor is true when that runtime is gVisor, under whatever name the engine has it.
	GVisor          bool
	CgroupVersion   string
	CgroupDriver    string
	StorageDriver   string
	KernelVersion   string
	OperatingSystem string
	Architecture    string
	Processors      int
	MemoryBytes     int64
	// SecurityOptions are the engine's own names, such as "seccomp", "apparmor", "rootless".
	SecurityOptions []string
	// RuncVersion is the engine's word for its runc, a version or a commit; empty when it says nothing.
	RuncVersion string
	// RuntimeArgs are what the engine starts OCIRuntime with.
	RuntimeArgs []string
	// RootDir is where the engine keeps its layers, on its own machine.
	RootDir string
	// Warnings are the engine's own.
	Warnings []string
	// Image is the tag that was asked for, ImageID what it means.
	Image   string
	ImageID string
}

// Facts returns what was found out about the engine when it was opened.
func (e *Engine) Facts() Facts { return e.facts }

// survey fills in what is taken from the machine and refuses one that cannot
// confine a sandbox.
func (e *Engine) survey(ctx context.Context) error {
	if err := e.call(ctx, opPing, e.cfg.CallTimeout, func(ctx context.Context) error {
		_, err := e.cli.Ping(ctx)
		return err
	}); err != nil {
		return fmt.Errorf("docker engine at %s does not answer (is it running? run `make setup`): %w", e.cli.DaemonHost(), err)
	}
	var info system.Info
	if err := e.call(ctx, opInfo, e.cfg.CallTimeout, func(ctx context.Context) (err error) {
		info, err = e.cli.Info(ctx)
		return err
	}); err != nil {
		return err
	}
	img, err := e.inspectImage(ctx)
	if err != nil {
		return err
	}
	e.facts = newFacts(info, e.cli.ClientVersion(), e.cfg, img.ID)
	if err := errors.Join(checkInfo(info, e.facts), checkImage(img)); err != nil {
		return fmt.Errorf("docker engine at %s: %w", e.cli.DaemonHost(), err)
	}
	makeProfile := Profile
	if e.facts.GVisor {
		makeProfile = GVisorProfile
	}
	profile, err := makeProfile(goarch(info.Architecture))
	if err != nil {
		return err
	}
	e.host = host{
		ImageID: img.ID, Runtime: e.facts.OCIRuntime, Seccomp: profile,
		AppArmor: slices.Contains(e.facts.SecurityOptions, "apparmor"), SELinux: slices.Contains(e.facts.SecurityOptions, "selinux"),
	}
	if img.Config != nil {
		e.host.ImageLabels = img.Config.Labels
	}
	return nil
}

func (e *Engine) inspectImage(ctx context.Context) (image.InspectResponse, error) {
	var img image.InspectResponse
	err := e.call(ctx, opInspectImage, e.cfg.CallTimeout, func(ctx context.Context) (err error) {
		img, err = e.cli.ImageInspect(ctx, e.cfg.Image)
		return err
	})
	if cerrdefs.IsNotFound(err) {
		return img, fmt.Errorf("sandbox image %s is not on this engine: run `make setup`: %w", e.cfg.Image, err)
	}
	return img, err
}

func newFacts(info system.Info, api string, cfg Config, imageID string) Facts {
	f := Facts{
		EngineVersion: info.ServerVersion, APIVersion: api, OCIRuntime: cfg.Runtime,
		CgroupVersion: info.CgroupVersion, CgroupDriver: info.CgroupDriver, StorageDriver: info.Driver,
		KernelVersion: info.KernelVersion, OperatingSystem: info.OperatingSystem, Architecture: info.Architecture,
		Processors: info.NCPU, MemoryBytes: info.MemTotal, Warnings: info.Warnings,
		Image: cfg.Image, ImageID: imageID,
	}
	if f.OCIRuntime == "" {
		f.OCIRuntime = info.DefaultRuntime
	}
	f.GVisor = gvisor(f.OCIRuntime)
	f.RuncVersion, f.RootDir, f.RuntimeArgs = info.RuncCommit.ID, info.DockerRootDir, info.Runtimes[f.OCIRuntime].Args
	for name := range info.Runtimes {
		f.Runtimes = append(f.Runtimes, name)
	}
	slices.Sort(f.Runtimes)
	for _, option := range info.SecurityOptions {
		// "name=seccomp,profile=default"
		first, _, _ := strings.Cut(option, ",")
		f.SecurityOptions = append(f.SecurityOptions, strings.TrimPrefix(first, "name="))
	}
	return f
}

// checkInfo names everything that the engine lacks. A limit it cannot enforce
// would only be warned about, container by container.
func checkInfo(info system.Info, f Facts) error {
	var errs []error
	need := func(have bool, missing string) {
		if !have {
			errs = append(errs, errors.New(missing))
		}
	}
	need(info.OSType == "linux", fmt.Sprintf("it runs %s containers, not linux ones", info.OSType))
	need(slices.Contains(f.SecurityOptions, "seccomp"), "it cannot filter system calls (no seccomp)")
	need(info.MemoryLimit, "it cannot limit memory (memory cgroup missing)")
	need(info.SwapLimit, "it cannot limit swap (boot with swapaccount=1, or use cgroup v2)")
	need(info.PidsLimit, "it cannot limit processes (pids cgroup missing)")
	need(info.CPUCfsPeriod && info.CPUCfsQuota, "it cannot limit processor time (cpu cgroup missing)")
	need(f.OCIRuntime != "", "it names no default OCI runtime")
	if f.OCIRuntime != "" && len(f.Runtimes) > 0 {
		need(slices.Contains(f.Runtimes, f.OCIRuntime), fmt.Sprintf("it has no OCI runtime %q, only %s",
			f.OCIRuntime, strings.Join(f.Runtimes, ", ")))
	}
	return errors.Join(errs...)
}

// checkImage refuses an image whose own configuration would end up in the
// container beside ours.
func checkImage(img image.InspectResponse) error {
	if img.ID == "" || img.Config == nil {
		return errors.New("the engine does not describe the sandbox image")
	}
	var errs []error
	if len(img.Config.Volumes) > 0 {
		errs = append(errs, errors.New("the sandbox image declares volumes"))
	}
	if len(img.Config.ExposedPorts) > 0 {
		errs = append(errs, errors.New("the sandbox image exposes ports"))
	}
	return errors.Join(errs...)
}

// goarch translates the engine's name for its architecture.
func goarch(architecture string) string {
	switch architecture {
	case "x86_64", "amd64":
		return "amd64"
	case "aarch64", "arm64":
		return "arm64"
	case "":
		return runtime.GOARCH
	}
	return architecture
}
