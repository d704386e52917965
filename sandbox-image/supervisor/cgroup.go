//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup reads the counters of the cgroup that this process is in. Version 1
// and 2 are read; a counter that is not there reads as unknown. The files are
// opened once, so that reading still works when the program has used up
// descriptors or time.
type cgroup struct {
	version string // "v1", "v2" or ""

	cpu, memoryPeak, memoryEvents, pidsCurrent, pidsPeak, pidsEvents *os.File
}

// findCgroup finds this process's cgroup through the files cgroup and
// mountinfo of proc, which is /proc/self outside tests.
func findCgroup(proc string) *cgroup {
	membership, err := os.ReadFile(filepath.Join(proc, "cgroup"))
	if err != nil {
		return &cgroup{}
	}
	mounts, err := os.ReadFile(filepath.Join(proc, "mountinfo"))
	if err != nil {
		return &cgroup{}
	}
	dirs := cgroupFolders(string(membership), string(mounts))
	if dir, ok := dirs["memory"]; ok {
		cpu := dirs["cpuacct"]
		return open("v1", map[string]string{
			"cpu": join(cpu, "cpuacct.usage"), "memoryPeak": join(dir, "memory.max_usage_in_bytes"), "memoryEvents": join(dir, "memory.oom_control"),
			"pidsCurrent": join(dirs["pids"], "pids.current"), "pidsPeak": join(dirs["pids"], "pids.peak"), "pidsEvents": join(dirs["pids"], "pids.events"),
		})
	}
	if dir, ok := dirs[""]; ok {
		return open("v2", map[string]string{
			"cpu": join(dir, "cpu.stat"), "memoryPeak": join(dir, "memory.peak"), "memoryEvents": join(dir, "memory.events"),
			"pidsCurrent": join(dir, "pids.current"), "pidsPeak": join(dir, "pids.peak"), "pidsEvents": join(dir, "pids.events"),
		})
	}
	return &cgroup{}
}

// join joins a folder and a file; the empty folder has no files.
func join(dir, name string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, name)
}

func open(version string, paths map[string]string) *cgroup {
	c := &cgroup{}
	for name, to := range map[string]**os.File{
		"cpu": &c.cpu, "memoryPeak": &c.memoryPeak, "memoryEvents": &c.memoryEvents,
		"pidsCurrent": &c.pidsCurrent, "pidsPeak": &c.pidsPeak, "pidsEvents": &c.pidsEvents,
	} {
		if f, err := os.Open(paths[name]); err == nil {
			*to = f
			c.version = version
		}
	}
	return c
}

// close closes the files.
func (c *cgroup) close() {
	for _, f := range []*os.File{c.cpu, c.memoryPeak, c.memoryEvents, c.pidsCurrent, c.pidsPeak, c.pidsEvents} {
		_ = f.Close() // read only; nil is refused without harm
	}
}

// cgroupFolders returns the folder of this process's cgroup for each mounted
// version 1 controller by its name, and that of version 2 under "". See
// cgroups(7) and proc_pid_mountinfo(5) for the formats.
func cgroupFolders(membership, mounts string) map[string]string {
	paths := map[string]string{}
	for line := range strings.Lines(membership) {
		// hierarchy-ID:controller-list:path
		part := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(part) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(part[1], ",") {
			paths[controller] = part[2]
		}
	}
	dirs := map[string]string{}
	for line := range strings.Lines(mounts) {
		// id parent major:minor root mount-point options [optional...] - type source super-options
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 {
			continue
		}
		var controllers []string
		switch right[0] {
		case "cgroup":
			controllers = strings.Split(right[2], ",")
		case "cgroup2":
			controllers = []string{""}
		}
		for _, controller := range controllers {
			if path, ok := paths[controller]; ok {
				dirs[controller] = filepath.Join(left[4], below(left[3], path))
			}
		}
	}
	return dirs
}

// below returns where path lies below root. Both may be outside this
// process's cgroup namespace ("/.."), and then the mount is taken to show the cgroup itself.
func below(root, path string) string {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(root, "/"))
	if !ok || (rest != "" && rest[0] != '/') {
		return ""
	}
	return rest
}

// unknown stands for a counter that cannot be read.
const unknown = -1

// cpuTime returns the processor time of the whole cgroup.
func (c *cgroup) cpuTime() (time.Duration, bool) {
	text, ok := c.read(c.cpu)
	if !ok {
		return 0, false
	}
	if c.version == "v1" {
		n := number(text)
		return time.Duration(n), n != unknown
	}
	n := field(text, "usage_usec")
	return time.Duration(n) * time.Microsecond, n != unknown
}

// oomKills returns how many processes the kernel killed for memory.
func (c *cgroup) oomKills() int64 { return c.field(c.memoryEvents, "oom_kill") }

// forksRefused returns how many forks the limit on processes refused.
func (c *cgroup) forksRefused() int64 { return c.field(c.pidsEvents, "max") }

// peakMemory returns the largest use of memory in bytes.
func (c *cgroup) peakMemory() int64 { return c.number(c.memoryPeak) }

// tasks returns how many tasks there are now, threads included.
func (c *cgroup) tasks() int64 { return c.number(c.pidsCurrent) }

// peakTasks returns the most tasks there were at once since the cgroup was made.
func (c *cgroup) peakTasks() int64 { return c.number(c.pidsPeak) }

func (c *cgroup) number(f *os.File) int64 {
	if text, ok := c.read(f); ok {
		return number(text)
	}
	return unknown
}

func (c *cgroup) field(f *os.File, key string) int64 {
	if text, ok := c.read(f); ok {
		return field(text, key)
	}
	return unknown
}

// read returns the present content of f, one of the kernel's small files.
func (c *cgroup) read(f *os.File) ([]byte, bool) {
	if f == nil {
		return nil, false
	}
	var buf [2048]byte
	n, err := unix.Pread(int(f.Fd()), buf[:], 0) // once: the kernel gives all that there is, and ReadAt would ask again
	if err != nil || n == 0 {
		return nil, false
	}
	return buf[:n], true
}

// number parses a file that is one number.
func number(text []byte) int64 {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil || n < 0 {
		return unknown
	}
	return n
}

// field parses the number after key in a file of "key number" lines.
func field(text []byte, key string) int64 {
	for line := range bytes.Lines(text) {
		if name, value, ok := bytes.Cut(line, []byte(" ")); ok && string(name) == key {
			return number(value)
		}
	}
	return unknown
}
