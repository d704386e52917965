package docker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// TestSeccompGolden lists, for each architecture, every system call that is
// admitted and for which arguments, and keeps the profile's text.
func TestSeccompGolden(t *testing.T) {
	t.Parallel()
	for goarch := range seccompArches {
		t.Run(goarch, func(t *testing.T) {
			t.Parallel()
			p, err := buildProfile(goarch)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "seccomp-"+goarch+".txt", describe(p))
			text, err := Profile(goarch)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "seccomp-"+goarch+".json", indented(t, json.RawMessage(text)))
		})
	}
	if _, err := Profile("s390x"); err == nil {
		t.Error("got a profile for an architecture without one")
	}
}

// TestGVisorProfile checks that the profile for gVisor admits one call more and
// is the same in all else.
func TestGVisorProfile(t *testing.T) {
	t.Parallel()
	for goarch := range seccompArches {
		plain, err := Profile(goarch)
		if err != nil {
			t.Fatal(err)
		}
		got, err := GVisorProfile(goarch)
		if err != nil {
			t.Fatal(err)
		}
		more := lines(t, got)
		for line := range lines(t, plain) {
			if !more[line] && line != "ERRNO clone3 errno 38" {
				t.Errorf("%s: %q is missing", goarch, line)
			}
			delete(more, line)
		}
		if diff := cmp.Diff(map[string]bool{"ALLOW clone3": true}, more); diff != "" {
			t.Errorf("%s: what it has more (-want +got):\n%s", goarch, diff)
		}
	}
}

// lines is a profile's text as describe writes it.
func lines(t *testing.T, text string) map[string]bool {
	t.Helper()
	p := &seccomp.Seccomp{}
	if err := json.Unmarshal([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for line := range strings.Lines(string(describe(p))) {
		all[strings.TrimSuffix(line, "\n")] = true
	}
	return all
}

// describe writes one line a rule.
func describe(p *seccomp.Seccomp) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "default %s errno %d, architectures %v\n", p.DefaultAction, *p.DefaultErrnoRet, p.Architectures)
	for _, rule := range p.Syscalls {
		for _, name := range rule.Names {
			fmt.Fprintf(&out, "%s %s", strings.TrimPrefix(string(rule.Action), "SCMP_ACT_"), name)
			if rule.ErrnoRet != nil {
				fmt.Fprintf(&out, " errno %d", *rule.ErrnoRet)
			}
			for _, arg := range rule.Args {
				if arg.Op == specs.OpMaskedEqual {
					fmt.Fprintf(&out, " arg%d&%#x==%#x", arg.Index, arg.Value, arg.ValueTwo)
				} else {
					fmt.Fprintf(&out, " arg%d==%d", arg.Index, arg.Value)
				}
			}
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

// TestSeccompNever names calls that must stay refused for all arguments, by a
// list of its own: the code's could lose one.
func TestSeccompNever(t *testing.T) {
	t.Parallel()
	never := strings.Fields(`
		io_uring_setup io_uring_enter io_uring_register ptrace process_vm_readv process_vm_writev process_madvise
		pidfd_getfd kcmp keyctl add_key request_key userfaultfd bpf perf_event_open splice tee vmsplice memfd_secret
		modify_ldt remap_file_pages fanotify_init fanotify_mark name_to_handle_at open_by_handle_at mount umount2
		mount_setattr move_mount open_tree fsopen fsconfig fsmount fspick pivot_root chroot unshare setns
		kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct syslog iopl
		ioperm quotactl settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname socketcall ipc
		shmget semget msgget mq_open lookup_dcookie mbind migrate_pages move_pages vhangup nfsservctl uselib ustat`)
	for goarch := range seccompArches {
		p, err := buildProfile(goarch)
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range p.Syscalls {
			for _, name := range rule.Names {
				if rule.Action == specs.ActAllow && slices.Contains(never, name) {
					t.Errorf("%s: %s is admitted", goarch, name)
				}
			}
		}
	}
}

// TestSeccompShape checks what keeps the filter sound whatever the lists hold.
func TestSeccompShape(t *testing.T) {
	t.Parallel()
	for goarch, arch := range seccompArches {
		p, err := buildProfile(goarch)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Architectures) != 1 || p.Architectures[0] != arch || len(p.ArchMap) != 0 {
			t.Errorf("%s: got architectures %v %v, want only %s", goarch, p.Architectures, p.ArchMap, arch)
		}
		if p.DefaultAction != specs.ActErrno {
			t.Errorf("%s: got default %s, want errno", goarch, p.DefaultAction)
		}
		open := map[string]bool{}
		for n, rule := range p.Syscalls {
			if rule.Includes != nil || rule.Excludes != nil {
				t.Errorf("%s: rule %d has a condition that an engine would resolve", goarch, n)
			}
			for _, arg := range rule.Args {
				if arg.Op != specs.OpEqualTo && arg.Op != specs.OpMaskedEqual {
					t.Errorf("%s: %v compares by %s: high bits slip past", goarch, rule.Names, arg.Op)
				}
			}
			for _, name := range rule.Names {
				if rule.Action == specs.ActAllow && len(rule.Args) == 0 {
					open[name] = true
				} else if open[name] {
					t.Errorf("%s: %s is admitted without conditions besides its rule", goarch, name)
				}
			}
		}
		for _, name := range []string{"clone", "socket", "socketpair", "prlimit64", "setpriority", "ioprio_set", "personality"} {
			if open[name] {
				t.Errorf("%s: %s is admitted for all arguments", goarch, name)
			}
		}
	}
}
