package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Host is what a worker can see of the machine that it runs on. It is that of the sandboxes when the engine is here too.
type Host struct {
	// CorePattern says where the kernel puts core dumps.
	CorePattern string
	// IOUring and UnprivilegedBPF are sysctls; empty when the kernel does not have them.
	IOUring, UnprivilegedBPF string
	// Swaps is how many areas of swap there are.
	Swaps int
	// Disk is about the file system of the engine's layers; nil when that cannot be seen from here.
	Disk *Disk
}

// Disk is the room on a file system.
type Disk struct {
	Path string
	// FreeBytes of Bytes, and FreeInodes of Inodes; a file system that does not count inodes has 0.
	FreeBytes, Bytes, FreeInodes, Inodes uint64
}

// ReadHost looks at the machine. root is "/" outside tests, engineRoot the engine's folder.
func ReadHost(root, engineRoot string) Host {
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(text))
	}
	h := Host{
		CorePattern: read("proc/sys/kernel/core_pattern"), IOUring: read("proc/sys/kernel/io_uring_disabled"),
		UnprivilegedBPF: read("proc/sys/kernel/unprivileged_bpf_disabled"),
	}
	if swaps := read("proc/swaps"); swaps != "" {
		h.Swaps = strings.Count(swaps, "\n") // one line is the heading
	}
	var s unix.Statfs_t
	if path := filepath.Join(root, engineRoot); engineRoot != "" && unix.Statfs(path, &s) == nil {
		size := uint64(s.Bsize)
		h.Disk = &Disk{Path: engineRoot, FreeBytes: s.Bavail * size, Bytes: s.Blocks * size, FreeInodes: s.Ffree, Inodes: s.Files}
	}
	return h
}

// Rows judges the machine.
func (h Host) Rows() []Row { return []Row{h.cores(), h.ioUring(), h.bpf(), h.swap(), h.disk()} }

func (h Host) cores() Row {
	r := Row{Name: "core dumps", Status: OK, Detail: "core_pattern is " + strconv.Quote(h.CorePattern)}
	switch {
	case h.CorePattern == "":
		r.Detail = "core_pattern cannot be seen from here"
	case strings.HasPrefix(h.CorePattern, "|"):
		r.Status = Warn
		r.Detail += ": a program on the host is started for every crash in a sandbox, whatever its limit on core dumps"
		r.Remedy = "set kernel.core_pattern to a file name such as core"
	}
	return r
}

func (h Host) ioUring() Row {
	r := Row{Name: "io_uring", Status: OK, Detail: "off on this machine"}
	switch h.IOUring {
	case "2":
	case "":
		r.Detail = "this kernel cannot turn it off; the fleet's profile refuses it to sandboxes"
	default:
		r.Detail = "on; the fleet's profile refuses it to sandboxes"
		r.Status, r.Remedy = Warn, "set kernel.io_uring_disabled=2 if nothing on this machine needs it"
	}
	return r
}

func (h Host) bpf() Row {
	r := Row{Name: "bpf", Status: OK, Detail: "not for unprivileged processes"}
	switch h.UnprivilegedBPF {
	case "1", "2":
	case "":
		r.Detail = "this kernel cannot turn it off for unprivileged processes; the fleet's profile refuses it to sandboxes"
	default:
		r.Detail = "unprivileged processes may load programs into the kernel; the fleet's profile refuses it to sandboxes"
		r.Status, r.Remedy = Warn, "set kernel.unprivileged_bpf_disabled=1"
	}
	return r
}

func (h Host) swap() Row {
	if h.Swaps == 0 {
		return Row{Name: "swap", Status: OK, Detail: "none"}
	}
	return Row{
		Name: "swap", Status: Warn, Detail: fmt.Sprintf("areas: %d; sandboxes get none of it, but what they hold may be written to disk when memory is short", h.Swaps),
		Remedy: "turn swap off, or encrypt it, on machines that run jobs",
	}
}

// Bounds from which on a disk is worth a warning.
const (
	leastFreeBytes  = 2 << 30
	leastFreeInodes = 50_000
)

func (h Host) disk() Row {
	const name = "disk"
	d := h.Disk
	if d == nil {
		return Row{Name: name, Status: OK, Detail: "the engine's folder cannot be seen from here"}
	}
	detail := fmt.Sprintf("%s has %d GiB of %d free", d.Path, d.FreeBytes>>30, d.Bytes>>30)
	if d.Inodes > 0 {
		detail += fmt.Sprintf(", %d inodes of %d", d.FreeInodes, d.Inodes)
	}
	if d.FreeBytes < leastFreeBytes || d.Inodes > 0 && d.FreeInodes < leastFreeInodes {
		return Row{Name: name, Status: Warn, Detail: detail, Remedy: "make room: an engine without any can neither start nor remove containers"}
	}
	return Row{Name: name, Status: OK, Detail: detail}
}
