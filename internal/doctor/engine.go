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
	Warnings        []string
	Image, ImageID  string
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
		e.runtime(), e.seccomp(), e.mandatoryAccess(), e.cgroups(),
	}
	for _, warning := range e.Warnings {
		rows = append(rows, Row{Name: "engine warning", Status: Warn, Detail: warning, Remedy: "see the engine's documentation"})
	}
	return rows
}

func (e Engine) runtime() Row {
	r := Row{Name: "runtime", Status: OK, Detail: e.OCIRuntime}
	if !e.GVisor {
		r.Detail += ": sandboxes share the kernel of this machine"
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
