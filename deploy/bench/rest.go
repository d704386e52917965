package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/execra/tracefleet/internal/sandbox/docker"
)

// restSlots is the number of waiting sandboxes whose cost is measured.
const restSlots = 4

// rest is what a worker costs that has nothing to do.
type rest struct {
	Sandboxes    int   `json:"sandboxes"`
	SandboxBytes int64 `json:"sandbox_bytes"` // all of them, as their cgroups count
	WorkerBytes  int64 `json:"worker_bytes"`
	// Processor time in milliseconds per second, of all sandboxes and of the worker.
	SandboxCPU float64 `json:"sandbox_cpu_ms_per_s"`
	WorkerCPU  float64 `json:"worker_cpu_ms_per_s"`
}

// rest measures (j) for a while, on a fleet at rest.
func (b *bench) rest(ctx context.Context, f *fleet) error {
	if err := f.settle(ctx); err != nil {
		return err
	}
	before, err := b.bare.use(ctx, f)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := pause(ctx, b.plan.Rest); err != nil {
		return err
	}
	after, err := b.bare.use(ctx, f)
	if err != nil {
		return err
	}
	each := func(d time.Duration) float64 { return round(millis(d) / time.Since(start).Seconds()) }
	b.report.Rest = &rest{
		Sandboxes: after.sandboxes, SandboxBytes: after.bytes, SandboxCPU: each(after.cpu - before.cpu), WorkerCPU: each(after.worker - before.worker),
	}
	b.report.Rest.WorkerBytes, err = f.residentBytes()
	return err
}

// use is what the sandboxes of a fleet, and its worker, have used.
type use struct {
	sandboxes   int
	bytes       int64
	cpu, worker time.Duration
}

func (x *bare) use(ctx context.Context, f *fleet) (use, error) {
	var u use
	found, err := x.cli.ContainerList(ctx, container.ListOptions{Filters: filters.NewArgs(filters.Arg("label", docker.LabelFleet+"="+f.name))})
	if err != nil {
		return u, err
	}
	for _, c := range found {
		answer, err := x.cli.ContainerStatsOneShot(ctx, c.ID)
		if err != nil {
			return u, err
		}
		var stats container.StatsResponse
		err = json.NewDecoder(answer.Body).Decode(&stats)
		_ = answer.Body.Close() // it was only read
		if err != nil {
			return u, fmt.Errorf("read the use of a sandbox: %w", err)
		}
		u.sandboxes++
		u.bytes += int64(stats.MemoryStats.Usage)
		u.cpu += time.Duration(stats.CPUStats.CPUUsage.TotalUsage)
	}
	u.worker, err = processorTime(f.cmd.Process.Pid)
	return u, err
}

// processorTime is what a process has used so far.
func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system, tick = 11, 12, 10 * time.Millisecond // USER_HZ is 100 on every Linux
	if len(fields) <= system {
		return 0, fmt.Errorf("stat of process %d is too short", pid)
	}
	var total time.Duration
	for _, field := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		total += time.Duration(n) * tick
	}
	return total, nil
}

func (r *report) tableAtRest(w io.Writer) {
	if r.Rest == nil {
		return
	}
	const mib = 1 << 20
	fmt.Fprintf(w, "(j) at rest\tmemory MiB\tprocessor ms/s\n")
	fmt.Fprintf(w, "%d waiting sandboxes\t%.1f\t%.2f\n", r.Rest.Sandboxes, float64(r.Rest.SandboxBytes)/mib, r.Rest.SandboxCPU)
	fmt.Fprintf(w, "the worker\t%.1f\t%.2f\n\n", float64(r.Rest.WorkerBytes)/mib, r.Rest.WorkerCPU)
}
