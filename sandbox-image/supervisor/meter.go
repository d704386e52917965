//go:build linux

package main

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execra/tracefleet/internal/wire"
)

// meter tells what the program has used, without what was used before it
// started and without the supervisor's own part. It prefers the cgroup's
// counters, which no process can escape, and falls back to /proc.
type meter struct {
	cg     *cgroup
	reaper *reaper

	cpuBefore   time.Duration
	oomBefore   int64
	forksBefore int64
	peakBefore  int64
	ownThreads  int64
	mostTasks   int64
}

func newMeter(cg *cgroup, r *reaper) *meter { return &meter{cg: cg, reaper: r} }

// start takes the counters' present state as zero.
func (m *meter) start() {
	m.ownThreads = countFolder("/proc/self/task")
	m.cpuBefore = m.cpuNow()
	m.oomBefore, m.forksBefore, m.peakBefore = m.cg.oomKills(), m.cg.forksRefused(), m.cg.peakTasks()
	m.sample()
}

// cpu returns the processor time that the program and all its descendants have used.
func (m *meter) cpu() time.Duration { return max(0, m.cpuNow()-m.cpuBefore) }

func (m *meter) cpuNow() time.Duration {
	if total, ok := m.cg.cpuTime(); ok {
		return total - ownCPU()
	}
	return m.reaper.reapedCPU() + liveCPU("/proc")
}

// sample notes how many tasks there are now.
func (m *meter) sample() {
	tasks := m.cg.tasks()
	if tasks == unknown {
		tasks = m.ownThreads + liveTasks("/proc")
	}
	m.mostTasks = max(m.mostTasks, tasks-m.ownThreads)
}

// fill writes what was counted into end. All processes are gone.
func (m *meter) fill(end *wire.EndInfo) {
	end.CPUMS = m.cpu().Milliseconds()
	end.OOMKills = since(m.oomBefore, m.cg.oomKills())
	end.ForksRefused = since(m.forksBefore, m.cg.forksRefused())
	end.MaxMemoryBytes = m.cg.peakMemory()
	if end.MaxMemoryBytes == unknown {
		end.MaxMemoryBytes = m.reaper.reapedPeak()
	}
	end.MaxProcesses = m.mostTasks
	// The peak also knows the container's own start, so it counts only when
	// the program went higher.
	if peak := m.cg.peakTasks(); peak != unknown && m.peakBefore != unknown && peak > m.peakBefore {
		end.MaxProcesses = peak - m.ownThreads
	}
}

// since returns how far a counter went, or unknown.
func since(before, now int64) int64 {
	if before == unknown || now == unknown {
		return unknown
	}
	return max(0, now-before)
}

// ownCPU is the supervisor's own processor time.
func ownCPU() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// liveCPU adds up the processor time of all living processes below proc but
// PID 1, each with that of the children it has waited for.
func liveCPU(proc string) (total time.Duration) {
	eachStat(proc, func(fields [][]byte) { total += statCPU(fields) })
	return total
}

// liveTasks counts the threads of all living processes below proc but PID 1.
func liveTasks(proc string) (total int64) {
	const threads = 17
	eachStat(proc, func(fields [][]byte) { total += max(1, number(fields[threads])) })
	return total
}

// eachStat calls use with the fields from the state on, "state ppid …", of
// the /proc/PID/stat of each process below proc but PID 1.
func eachStat(proc string, use func(fields [][]byte)) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !isPID(e.Name()) || e.Name() == "1" {
			continue
		}
		stat, err := os.ReadFile(proc + "/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		if fields := statFields(stat); fields != nil {
			use(fields)
		}
	}
}

// statFields returns the fields from the state on; nil when they are not
// complete. The command may hold spaces and brackets, so they count from its end.
func statFields(stat []byte) [][]byte {
	const least = 20 // far enough for all that is read here
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < least {
		return nil
	}
	return fields
}

// statCPU returns the sum of utime, stime, cutime and cstime.
func statCPU(fields [][]byte) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	var ticks int64
	for _, f := range fields[11:15] {
		ticks += max(0, number(f))
	}
	return time.Duration(ticks) * tick
}

// countFolder counts the entries of a folder.
func countFolder(dir string) int64 {
	f, err := os.Open(dir)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }() // a folder, opened to read
	names, err := f.Readdirnames(-1)
	if err != nil {
		return 0
	}
	return int64(len(names))
}

func isPID(name string) bool {
	_, err := strconv.Atoi(name)
	return err == nil
}
