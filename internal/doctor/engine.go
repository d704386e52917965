package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Engine is what a worker knows of its container engine and its sandbox image.
type Engine struct {
	// Name is the kind of engine, such as "docker".
	Name, Version, APIVersion string
	OCIRuntime                string
	// GVisor tells whether that is gVisor.
	GVisor          bool
	CgroupVersion   string
	CgroupDriver    string
	StorageDriver   string
	Kernel          string
	SecurityOptions []string
	// RuncVersion is what the engine says of its runc; empty for nothing.
	RuncVersion string
	// RuntimeArgs are what the engine starts the runtime with.
	RuntimeArgs    []string
	Warnings       []string
	Image, ImageID string
}

// EngineDown is the row of an engine that cannot be used, with the reason,
// which says what to do.
func EngineDown(name string, err error) []Row {
	return []Row{{Name: "engine", Status: Fail, Detail: fmt.Sprintf("%s: %v", name, err), Remedy: "put it right and run doctor again; make setup installs what is missing"}}
}

// Rows judges the engine. That it can enforce every limit was checked when it
// was opened.
func (e Engine) Rows() []Row {
	rows := []Row{
		{Name: "engine", Status: OK, Detail: fmt.Sprintf("%s %s, API %s, %s, kernel %s", e.Name, e.Version, e.APIVersion, e.StorageDriver, e.Kernel)},
		{Name: "sandbox image", Status: OK, Detail: fmt.Sprintf("%s, %s", e.Image, e.ImageID)},
		judgeVersion("engine version", e.Version, engineFloors), judgeVersion("kernel version", e.Kernel, kernelFloors),
	}
	rows = append(rows, e.runtime()...)
	rows = append(rows, e.seccomp(), e.mandatoryAccess(), e.users(), e.cgroups(), e.storage())
	for _, warning := range e.Warnings {
		rows = append(rows, Row{Name: "engine warning", Status: Warn, Detail: warning, Remedy: "see the engine's documentation"})
	}
	return rows
}

func (e Engine) runtime() []Row {
	if e.GVisor {
		return []Row{{Name: "runtime", Status: OK, Detail: e.OCIRuntime + ": sandboxes have a kernel of their own"}, e.innerFilter()}
	}
	rows := []Row{{Name: "runtime", Status: OK, Detail: e.OCIRuntime + ": sandboxes share the kernel of this machine"}}
	if e.OCIRuntime == "runc" && e.RuncVersion != "" {
		rows = append(rows, judgeVersion("runc version", e.RuncVersion, runcFloors))
	}
	return rows
}

// innerFilter is about the profile inside gVisor, which ignores it unless told.
func (e Engine) innerFilter() Row {
	const flag = "--oci-seccomp"
	if slices.ContainsFunc(e.RuntimeArgs, func(arg string) bool { return arg == flag || arg == flag+"=true" }) {
		return Row{Name: "seccomp in gVisor", Status: OK, Detail: "gVisor filters system calls as the fleet asks"}
	}
	return Row{
		Name: "seccomp in gVisor", Status: Warn, Detail: "gVisor ignores the fleet's profile: a program can change the limits of its supervisor, and ends in result_invalid",
		Remedy: "add " + flag + " to the runtime's runtimeArgs in the engine's daemon.json; deploy/setup/gvisor.sh does",
	}
}

// users is about what root in a container would be on the host.
func (e Engine) users() Row {
	switch {
	case slices.Contains(e.SecurityOptions, "rootless"):
		return Row{Name: "user namespace", Status: OK, Detail: "the engine runs without root"}
	case slices.Contains(e.SecurityOptions, "userns"):
		return Row{Name: "user namespace", Status: OK, Detail: "root in a container is nobody on the host"}
	}
	return Row{
		Name: "user namespace", Status: Warn, Detail: "none: who gets out of a container as root is root on the host; sandboxes run as another user",
		Remedy: "turn on userns-remap, or run the engine rootless",
	}
}

func (e Engine) storage() Row {
	r := Row{Name: "storage driver", Status: OK, Detail: e.StorageDriver}
	if e.StorageDriver == "vfs" {
		r.Status, r.Remedy = Warn, "use overlay2: vfs copies the image for every sandbox"
	}
	return r
}

func (e Engine) seccomp() Row {
	if slices.Contains(e.SecurityOptions, "seccomp") {
		return Row{Name: "seccomp", Status: OK, Detail: "supported; every sandbox gets the fleet's own profile"}
	}
	return Row{Name: "seccomp", Status: Fail, Detail: "not supported: system calls cannot be filtered", Remedy: "use an engine and a kernel with seccomp"}
}

func (e Engine) mandatoryAccess() Row {
	for _, name := range []string{"apparmor", "selinux"} {
		if slices.Contains(e.SecurityOptions, name) {
			return Row{Name: "access control", Status: OK, Detail: name}
		}
	}
	return Row{
		Name: "access control", Status: Warn, Detail: "neither AppArmor nor SELinux",
		Remedy: "turn one on for a second line of defence, if the machine has it",
	}
}

func (e Engine) cgroups() Row {
	detail := fmt.Sprintf("version %s, driver %s; memory, swap, processes and processor time can be limited",
		strings.TrimPrefix(e.CgroupVersion, "v"), e.CgroupDriver)
	return Row{Name: "cgroups", Status: OK, Detail: detail}
}

// Canary is the row of a look into a sandbox from the inside, which gave err.
func Canary(err error) Row {
	if err != nil {
		return Row{Name: "canary", Status: Fail, Detail: err.Error(), Remedy: "a worker takes no jobs like this: put right what is named; docs/security.md says what each part is for"}
	}
	return Row{Name: "canary", Status: OK, Detail: "a sandbox holds what it promises, seen from the inside"}
}
