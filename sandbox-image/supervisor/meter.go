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
	mostMemory  int64         // resident, of one process
	cpuParted   time.Duration // when the program left; zero when it was waited for
}

func newMeter(cg *cgroup, r *reaper) *meter { return &meter{cg: cg, reaper: r} }

// patience is how long a program runs before it is worth a look: where all of /proc has to be gone through
// for it, most programs end sooner than that would take.
func (m *meter) patience() time.Duration {
	if m.cg.cpu == nil || m.cg.pidsCurrent == nil {
		return 3 * firstLook
	}
	return firstLook
}

// start takes the counters' present state as zero. The interpreter waits by then.
func (m *meter) start() {
	m.ownThreads = ownThreads()
	m.oomBefore, m.forksBefore, m.peakBefore = m.cg.oomKills(), m.cg.forksRefused(), m.cg.peakTasks()
	m.cpuBefore = m.scan()
}

// look notes how many tasks there are now, and returns the processor time that
// the program and all its descendants have used.
func (m *meter) look() time.Duration { return max(0, m.scan()-m.cpuBefore) }

// scan notes how many tasks there are now, and returns the processor time of
// everything but the supervisor since the sandbox was made.
func (m *meter) scan() time.Duration {
	cpu, tasks := m.cgroupCPU(), m.cg.tasks()
	if cpu == unknown || tasks == unknown {
		used, live := m.survey() // once for both: in some sandboxes it takes long
		if cpu == unknown {
			cpu = used
		}
		if tasks == unknown {
			tasks = m.ownThreads + live.tasks
		}
	}
	m.mostTasks = max(m.mostTasks, tasks-m.ownThreads)
	return cpu
}

// survey returns the processor time of all processes but PID 1, dead and living, and what the living take.
func (m *meter) survey() (time.Duration, use) {
	for tries := 0; ; tries++ {
		reaped := m.reaper.reapedCPU()
		live := liveUse("/proc")
		live.cpu = max(live.cpu, processCPU(m.reaper.pid)) // the files count in hundredths of a second
		m.mostMemory = max(m.mostMemory, live.memory)
		// Whoever died meanwhile may have been counted twice, or not at all.
		if m.reaper.reapedCPU() == reaped || tries == 1 {
			return reaped + live.cpu, live
		}
	}
}

// part notes what the living have used, for when they are not waited for: where the
// cgroup does not tell, nobody could afterwards. The peak is what the interpreter said of its own memory. It stands in
// for the kernel's word, which comes with the end only, and nothing less than what was seen is believed.
func (m *meter) part(peak int64) {
	if m.cg.cpu == nil || m.cg.memoryPeak == nil {
		m.cpuParted = m.scan()
		m.mostMemory = max(m.mostMemory, peak)
	}
}

// cgroupCPU is the cgroup's processor time without the supervisor's, or unknown.
func (m *meter) cgroupCPU() time.Duration {
	total, ok := m.cg.cpuTime()
	if !ok {
		return unknown
	}
	return max(0, total-ownCPU())
}

// fill writes what was counted into end. All processes are gone, or parted with.
func (m *meter) fill(end *wire.EndInfo) {
	cpu := m.cgroupCPU()
	if cpu == unknown {
		cpu = max(m.cpuParted, m.reaper.reapedCPU())
	}
	end.CPUMS = max(0, cpu-m.cpuBefore).Milliseconds()
	end.OOMKills = since(m.oomBefore, m.cg.oomKills())
	end.ForksRefused = since(m.forksBefore, m.cg.forksRefused())
	end.MaxMemoryBytes = m.cg.peakMemory()
	if end.MaxMemoryBytes == unknown {
		end.MaxMemoryBytes = max(m.mostMemory, m.reaper.reapedPeak())
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

// use is what processes take.
type use struct {
	cpu    time.Duration // each with that of the children it has waited for
	tasks  int64         // threads
	memory int64         // resident bytes of the largest
}

// liveUse adds up what all living processes below proc but PID 1 take.
func liveUse(proc string) (total use) {
	const resident = 21
	page := int64(os.Getpagesize())
	eachStat(proc, func(fields [][]byte) {
		total.cpu += statCPU(fields)
		total.tasks += max(1, number(fields[statThreads]))
		total.memory = max(total.memory, number(fields[resident])*page)
	})
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

// statThreads is where the number of threads stands in what statFields returns.
const statThreads = 17

// statFields returns the fields from the state on; nil when they are not
// complete. The command may hold spaces and brackets, so they count from its end.
func statFields(stat []byte) [][]byte {
	const least = 22 // far enough for all that is read here
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

// processCPU is the processor time of one process, living or not yet reaped, without its children; zero when there is none.
func processCPU(pid int) time.Duration {
	const schedClock = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|schedClock, &t); err != nil { // as clock_getcpuclockid(3) makes it
		return 0
	}
	return time.Duration(t.Nano())
}

// ownThreads counts the threads of this process. The kernel keeps that number; in the folder of the threads it would make an entry for each.
func ownThreads() int64 {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	if fields := statFields(stat); fields != nil {
		return number(fields[statThreads])
	}
	return 0
}

func isPID(name string) bool {
	_, err := strconv.Atoi(name)
	return err == nil
}
