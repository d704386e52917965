package docker

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// seccompArches are the architectures a profile can be generated for: GOARCH
// to the name that the OCI runtime knows. No 32-bit ABI is ever admitted; the
// runtime kills a process that enters the kernel through one.
var seccompArches = map[string]specs.Arch{
	"amd64": specs.ArchX86_64,
	"arm64": specs.ArchAARCH64,
}

// Profile returns the seccomp profile of a sandbox on the given GOARCH, as the
// JSON text that goes into SecurityOpt.
//
// It is moby's default profile, resolved for a container without capabilities,
// less the calls of seccompRemoved, with the calls of seccompLimited admitted
// for some arguments only. Conditions are resolved here, not by the engine, so
// that the same bytes mean the same filter on every engine from 20.10 on;
// names that a host's libseccomp does not know are skipped by the runtime and
// so stay refused.
func Profile(goarch string) (string, error) {
	return profileText(goarch, nil)
}

// GVisorProfile is Profile for a sandbox under gVisor, which answers EPERM to
// every refused call. The C library falls back from clone3 to clone on ENOSYS
// only, so clone3 is admitted: it reaches gVisor's kernel, not the host's.
func GVisorProfile(goarch string) (string, error) {
	return profileText(goarch, []string{"clone3"})
}

// profileText is the text of the profile that also admits the calls of more.
func profileText(goarch string, more []string) (string, error) {
	p, err := buildProfile(goarch)
	if err != nil {
		return "", err
	}
	for _, rule := range p.Syscalls {
		switch rule.Action {
		case specs.ActErrno:
			rule.Names = slices.DeleteFunc(slices.Clone(rule.Names), func(name string) bool { return slices.Contains(more, name) })
		case specs.ActAllow:
			if len(rule.Args) == 0 {
				rule.Names = append(rule.Names, more...)
				slices.Sort(rule.Names)
			}
		}
	}
	p.Syscalls = slices.DeleteFunc(p.Syscalls, func(rule *seccomp.Syscall) bool { return len(rule.Names) == 0 })
	text, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encode seccomp profile: %w", err)
	}
	return string(text), nil
}

func buildProfile(goarch string) (*seccomp.Seccomp, error) {
	arch, ok := seccompArches[goarch]
	if !ok {
		return nil, fmt.Errorf("no seccomp profile for architecture %q", goarch)
	}
	allowed := map[string]bool{}
	var refused []*seccomp.Syscall // rules that answer with another errno than the default one
	for _, rule := range seccomp.DefaultProfile().Syscalls {
		if !applies(rule, goarch) {
			continue
		}
		switch {
		case rule.Action == specs.ActAllow && len(rule.Args) == 0:
			for _, name := range rule.Names {
				allowed[name] = true
			}
		case rule.Action == specs.ActAllow:
			// Calls that the default admits for some arguments are among
			// seccompLimited, with arguments of our own.
		default:
			refused = append(refused, &seccomp.Syscall{LinuxSyscall: rule.LinuxSyscall})
		}
	}
	for _, group := range seccompRemoved {
		for _, name := range group.names {
			delete(allowed, name)
		}
	}
	var limited []*seccomp.Syscall
	for _, rule := range seccompLimited() {
		delete(allowed, rule.Names[0])
		limited = append(limited, &seccomp.Syscall{LinuxSyscall: rule})
	}
	names := make([]string, 0, len(allowed))
	for name := range allowed {
		names = append(names, name)
	}
	slices.Sort(names)

	eperm := uint(unix.EPERM)
	out := &seccomp.Seccomp{LinuxSeccomp: specs.LinuxSeccomp{
		DefaultAction:   specs.ActErrno,
		DefaultErrnoRet: &eperm,
		Architectures:   []specs.Arch{arch},
	}}
	out.Syscalls = append(out.Syscalls, &seccomp.Syscall{
		LinuxSyscall: specs.LinuxSyscall{Names: names, Action: specs.ActAllow},
	})
	out.Syscalls = append(out.Syscalls, limited...)
	out.Syscalls = append(out.Syscalls, refused...)
	return out, nil
}

// applies tells whether a rule of the default profile holds for a container
// without capabilities on goarch. A condition on the kernel's version counts
// as met: no kernel that old runs the engines we support.
func applies(rule *seccomp.Syscall, goarch string) bool {
	if in := rule.Includes; in != nil {
		if len(in.Caps) > 0 || len(in.Arches) > 0 && !slices.Contains(in.Arches, goarch) {
			return false
		}
	}
	if ex := rule.Excludes; ex != nil {
		if len(ex.Arches) > 0 && slices.Contains(ex.Arches, goarch) {
			return false
		}
	}
	return true
}
