package docker

import (
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// removal is a group of system calls that moby's default profile admits, or
// once admitted, and a sandbox does not.
type removal struct {
	reason string
	names  []string
}

// seccompRemoved is everything taken from moby's default profile. A name stays
// listed after moby drops it, so that its return there changes nothing here.
var seccompRemoved = []removal{
	{"looks into or writes to other processes", []string{
		"kcmp", "pidfd_getfd", "process_madvise", "process_mrelease", "process_vm_readv", "process_vm_writev", "ptrace",
	}},
	{"moves pages between files and pipes by reference: page cache bugs crossed containers through it", []string{
		"splice", "tee", "vmsplice",
	}},
	{"asynchronous I/O interfaces with a long record of kernel bugs; CPython uses neither", []string{
		"io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_pgetevents_time64", "io_setup", "io_submit",
		"io_uring_enter", "io_uring_register", "io_uring_setup",
	}},
	{"keyrings are not namespaced", []string{"add_key", "keyctl", "request_key"}},
	{"programs the kernel, counts its events or catches its faults", []string{
		"bpf", "lookup_dcookie", "perf_event_open", "uretprobe", "userfaultfd",
	}},
	{"unusual memory: hidden from the kernel, remapped, or with a segment table of its own", []string{
		"map_shadow_stack", "memfd_secret", "modify_ldt", "remap_file_pages",
	}},
	{"observes files of the shared image or of the host from inside", []string{
		"cachestat", "fanotify_init", "fanotify_mark", "listmount", "name_to_handle_at", "open_by_handle_at",
		"quotactl", "quotactl_fd", "statmount",
	}},
	{"flushes every file system of the host, its neighbours' too; libc ignores the refusal", []string{"sync", "syncfs"}},
	{"System V IPC and POSIX message queues: CPython uses neither, and their quotas are shared by all of one user", []string{
		"mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedreceive_time64", "mq_timedsend",
		"mq_timedsend_time64", "mq_unlink", "msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop",
		"semtimedop", "semtimedop_time64", "shmat", "shmctl", "shmdt", "shmget",
	}},
	{"adjusts the host's clock", []string{"adjtimex", "clock_adjtime", "clock_adjtime64"}},
	{"another architecture's, or never implemented", []string{
		"arm_fadvise64_64", "arm_sync_file_range", "breakpoint", "cacheflush", "epoll_ctl_old", "epoll_wait_old",
		"riscv_hwprobe", "set_tls", "sync_file_range2",
	}},
	{"exists in the 32-bit ABIs only; socketcall would also hide a socket's family from the filter", []string{
		"_llseek", "_newselect", "chown32", "clock_getres_time64", "clock_gettime64", "clock_nanosleep_time64",
		"fadvise64_64", "fchown32", "fcntl64", "fstat64", "fstatat64", "fstatfs64", "ftruncate64", "futex_time64",
		"getegid32", "geteuid32", "getgid32", "getgroups32", "getresgid32", "getresuid32", "getuid32", "ipc",
		"lchown32", "lstat64", "mmap2", "ppoll_time64", "pselect6_time64", "recv", "recvmmsg_time64",
		"rt_sigtimedwait_time64", "sched_rr_get_interval_time64", "send", "sendfile64", "setfsgid32", "setfsuid32",
		"setgid32", "setgroups32", "setregid32", "setresgid32", "setresuid32", "setreuid32", "setuid32",
		"sigprocmask", "sigreturn", "socketcall", "stat64", "statfs64", "timer_gettime64", "timer_settime64",
		"timerfd_gettime64", "timerfd_settime64", "truncate64", "ugetrlimit", "utimensat_time64", "waitpid",
	}},
}

// Bits of the arguments that the rules below look at, as the kernel defines them.
const (
	ioprioWhoProcess = 1 // IOPRIO_WHO_PROCESS
	socketTypeFlags  = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	personalityQuery = 0xffffffff
	namespaceFlags   = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP
	int32TypeMask    = 0xffffffff &^ socketTypeFlags
)

// seccompLimited returns the calls that are admitted for some arguments only.
// The rules of one call are alternatives; the arguments within a rule must all
// match. Comparisons are for equality, never exclusions: the filter sees 64
// bits where the kernel looks at the low 32, so a forbidden value with a high
// bit set would slip past an exclusion.
func seccompLimited() []specs.LinuxSyscall {
	rules := []specs.LinuxSyscall{
		// Other kinds of socket reach the host (AF_VSOCK), load kernel modules
		// on demand, or were ways into the kernel (AF_ALG, AF_RXRPC, SCTP).
		allow("socket", equals(0, unix.AF_UNIX)),
		allow("socketpair", equals(0, unix.AF_UNIX)),
	}
	for _, family := range []uint64{unix.AF_INET, unix.AF_INET6} {
		for _, kind := range [][2]uint64{
			{unix.SOCK_STREAM, 0}, {unix.SOCK_STREAM, unix.IPPROTO_TCP},
			{unix.SOCK_DGRAM, 0}, {unix.SOCK_DGRAM, unix.IPPROTO_UDP},
		} {
			rules = append(rules, allow("socket",
				equals(0, family), masked(1, int32TypeMask, kind[0]), equals(2, kind[1])))
		}
	}
	// A program of the same user could set the limits of PID 1, starve it, or
	// slow it down; by group or by user these calls reach it as well.
	self := []specs.LinuxSyscall{
		allow("prlimit64", equals(0, 0)),
		allow("sched_setaffinity", equals(0, 0)),
		allow("sched_setattr", equals(0, 0)),
		allow("sched_setparam", equals(0, 0)),
		allow("sched_setscheduler", equals(0, 0)),
		allow("setpriority", equals(0, unix.PRIO_PROCESS), equals(1, 0)),
		allow("ioprio_set", equals(0, ioprioWhoProcess), equals(1, 0)),
	}
	rules = append(rules, self...)
	return append(rules,
		// No way to switch address randomisation off.
		allow("personality", equals(0, 0)),
		allow("personality", equals(0, personalityQuery)),
		// Named pipes, but no devices.
		allow("mknod", masked(1, unix.S_IFMT, unix.S_IFIFO)),
		allow("mknodat", masked(2, unix.S_IFMT, unix.S_IFIFO)),
		allow("clone", masked(0, namespaceFlags, 0)),
	)
}

func allow(name string, args ...specs.LinuxSeccompArg) specs.LinuxSyscall {
	return specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow, Args: args}
}

// equals admits one value of argument index.
func equals(index uint, value uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: index, Value: value, Op: specs.OpEqualTo}
}

// masked admits what has value in the bits of mask.
func masked(index uint, mask, value uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: index, Value: mask, ValueTwo: value, Op: specs.OpMaskedEqual}
}
