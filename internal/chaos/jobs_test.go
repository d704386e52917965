package chaos_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/execra/tracefleet/internal/job"
)

// kind is a kind of program, whose end is known before.
type kind struct {
	name   string
	weight int
	status job.Status
	// code takes the id of the job, which it prints, and a time in seconds.
	code string
	// limits changes the limits of the job.
	limits func(*job.Limits)
}

// The programs sleep a moment so that faults meet them while they run. One that is to run out of time has enough of it to print its id,
// on a busy machine too.
func kinds() []kind {
	return []kind{
		{"good", 8, job.StatusOK, "import time\nprint('%[1]s', flush=True)\ntime.sleep(%.2[2]f)\n", nil},
		{"busy", 2, job.StatusOK, "print('%[1]s', flush=True)\nimport time\nend = time.process_time() + %.2[2]f / 8\nwhile time.process_time() < end:\n    pass\n", nil},
		{"exit", 2, job.StatusExitNonzero, "import sys, time\nprint('%[1]s', flush=True)\ntime.sleep(%.2[2]f / 2)\nsys.exit(3)\n", nil},
		{"exception", 2, job.StatusException, "import time\nprint('%[1]s', flush=True)\ntime.sleep(%.2[2]f)\n[][1]\n", nil},
		{"syntax", 1, job.StatusSyntaxError, "print('%[1]s'\n# %.2[2]f\n", nil},
		{"signal", 2, job.StatusSignaled, "import os, time\nprint('%[1]s', flush=True)\ntime.sleep(%.2[2]f)\nos.kill(os.getpid(), 9)\n", nil},
		{"time", 2, job.StatusTimeLimit, "import time\nprint('%[1]s', flush=True)\n# %.2[2]f\ntime.sleep(1000)\n", func(l *job.Limits) { l.WallMS = 6_000 }},
		{"memory", 2, job.StatusMemoryLimit, "import time\nprint('%[1]s', flush=True)\ntime.sleep(%.2[2]f / 2)\nhoard = []\nwhile True:\n    hoard.append(bytearray(1 << 20))\n", nil},
		{"flood", 2, job.StatusOutputLimit, "import time\nprint('%[1]s', flush=True)\ntime.sleep(%.2[2]f / 2)\nwhile True:\n    print('x' * 4096)\n", nil},
	}
}

// task is one job and what must become of it.
type task struct {
	kind kind
	job  job.Job
}

// mix makes n jobs of all kinds.
func mix(random *rand.Rand, n int) []task {
	all := kinds()
	total := 0
	for _, k := range all {
		total += k.weight
	}
	pick := func() kind {
		at := random.IntN(total)
		for _, k := range all {
			if at -= k.weight; at < 0 {
				return k
			}
		}
		return all[0]
	}
	tasks := make([]task, n)
	for i := range tasks {
		k := pick()
		id := fmt.Sprintf("chaos-%04d-%s", i, k.name)
		limits := job.DefaultLimits()
		// On a busy machine a good program must not meet its own limits.
		limits.WallMS, limits.CPUMS, limits.MemoryBytes, limits.OutputBytes = 60_000, 60_000, 64<<20, 100_000
		if k.limits != nil {
			k.limits(&limits)
		}
		j := job.Job{
			ID: id, Language: job.LanguagePython, Entrypoint: "main.py", Limits: limits, Tenant: fmt.Sprintf("tenant-%d", random.IntN(3)),
			Queue: job.Queues()[random.IntN(len(job.Queues()))],
			Files: map[string]string{"main.py": fmt.Sprintf(k.code, id, random.Float64()*5)},
		}
		tasks[i] = task{kind: k, job: j.Normalize()}
	}
	return tasks
}

// wrong says what is wrong with a result, or nothing.
func (k task) wrong(r job.Result) string {
	switch {
	case r.Status != k.kind.status:
		text := ""
		if r.Error != nil {
			text = *r.Error
		}
		return fmt.Sprintf("status %s, want %s (%s)", r.Status, k.kind.status, text)
	case r.Status == job.StatusSyntaxError:
		return ""
	case len(r.Stdout) <= len(k.job.ID) || r.Stdout[:len(k.job.ID)+1] != k.job.ID+"\n":
		return fmt.Sprintf("stdout %.60q, want its id first", r.Stdout)
	case r.Status != job.StatusOutputLimit && r.Stdout != k.job.ID+"\n":
		return fmt.Sprintf("stdout %.60q, want its id only", r.Stdout)
	}
	return ""
}
