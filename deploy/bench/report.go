package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// report is all that was measured. A ratio that was not measured is null.
type report struct {
	Plan    string         `json:"plan"`
	Started time.Time      `json:"started"`
	Seconds float64        `json:"seconds"`
	Machine map[string]any `json:"machine"`
	Ratios  ratios         `json:"ratios"`
	// Idle has the contenders a, b, c, d, e, command and crowded, in milliseconds.
	Idle map[string]times `json:"idle_ms"`
	// Steps are the parts of (c), Phases those of a job in the idle fleet; milliseconds.
	Steps  map[string]float64 `json:"engine_steps_ms,omitempty"`
	Phases map[string]float64 `json:"job_phases_ms,omitempty"`
	Full   []rates            `json:"full_jobs_per_s,omitempty"`
	Queue  *queueRates        `json:"queue_jobs_per_s,omitempty"`
	Sizes  []size             `json:"result_sizes,omitempty"`
	Worker []look             `json:"worker,omitempty"`
	Rest   *rest              `json:"rest,omitempty"`
	order  []string
}

// ratios compare; below 1 is better for times, above 1 for rates.
type ratios struct {
	IdleP50       *float64 `json:"idle_p50"`        // d/a
	IdleP99       *float64 `json:"idle_p99"`        // d/a
	IdleGVisorP50 *float64 `json:"idle_gvisor_p50"` // e/a
	Throughput    *float64 `json:"throughput"`      // fleet/c, the worst of equal slots
	Queue         *float64 `json:"queue"`           // fleet/asynq
	// The others have no target but the first two, which should be near 1.
	CrowdedP50   *float64 `json:"crowded_p50"`   // with many finished results/empty Redis
	MemoryGrowth *float64 `json:"memory_growth"` // worker's memory at the end/after the first tenth
	CommandP50   *float64 `json:"command_p50"`   // enqueuer trace/a
	DockerRunP50 *float64 `json:"docker_run_p50"`
	LoopP50      *float64 `json:"loop_p50"` // c/a
	Submit       *float64 `json:"submit"`   // submissions/asynq's enqueues
}

// rates are jobs per second at some number of slots.
type rates struct {
	Slots int     `json:"slots"`
	Loop  float64 `json:"loop"`
	Fleet float64 `json:"fleet"`
	Ratio float64 `json:"ratio"`
}

type queueRates struct {
	AsynqEnqueue float64 `json:"asynq_enqueue"`
	Submit       float64 `json:"submit"`
	Asynq        float64 `json:"asynq"`
	Fleet        float64 `json:"fleet"`
	// Processor time of one task and one job, in microseconds: of the process that handles them, and of Redis.
	AsynqCPU      float64 `json:"asynq_cpu_us"`
	AsynqRedisCPU float64 `json:"asynq_redis_cpu_us"`
	FleetCPU      float64 `json:"fleet_cpu_us"`
	FleetRedisCPU float64 `json:"fleet_redis_cpu_us"`
	// The same of jobs whose result has a trace.
	Traced         float64 `json:"traced"`
	TracedCPU      float64 `json:"traced_cpu_us"`
	TracedRedisCPU float64 `json:"traced_redis_cpu_us"`
	Finished       int     `json:"finished"`
}

func newReport(plan string) report {
	return report{Plan: plan, Started: time.Now().UTC().Truncate(time.Second), Machine: machine(), Idle: map[string]times{}}
}

func ratio(x, y float64) *float64 {
	if x == 0 || y == 0 {
		return nil
	}
	r := round(x / y)
	return &r
}

func (r *report) idle(name string, s sample) { r.Idle[name] = s.times() }

// phases takes the means of a worker's phases between two readings of its metrics.
func (r *report) phases(before, after map[string]float64) {
	r.Phases = map[string]float64{}
	for _, p := range []string{"wait", "launch", "run", "total"} {
		key := func(what string) string { return `tracefleet_runner_job_seconds_` + what + `{phase="` + p + `"}` }
		if n := after[key("count")] - before[key("count")]; n > 0 {
			r.Phases[p] = round(1000 * (after[key("sum")] - before[key("sum")]) / n)
		}
	}
}

func (r *report) steps(steps []step) {
	r.Steps = map[string]float64{}
	for _, s := range steps {
		r.Steps[s.name] = round(s.took.quantile(0.5))
		r.order = append(r.order, s.name)
	}
}

func (r *report) full(slots int, loop, fleet float64) {
	r.Full = append(r.Full, rates{Slots: slots, Loop: round(loop), Fleet: round(fleet), Ratio: round(fleet / max(loop, 0.001))})
}

func (r *report) queue(enqueue, submit, tasks, jobs meter) {
	r.Queue = &queueRates{
		AsynqEnqueue: round(enqueue.rate()), Submit: round(submit.rate()), Asynq: round(tasks.rate()), Fleet: round(jobs.rate()),
		AsynqCPU: tasks.each(tasks.own), AsynqRedisCPU: tasks.each(tasks.redis),
		FleetCPU: jobs.each(jobs.own), FleetRedisCPU: jobs.each(jobs.redis), Finished: submit.count,
	}
}

// traced adds jobs whose result has a trace.
func (q *queueRates) traced(jobs meter) {
	q.Traced, q.TracedCPU, q.TracedRedisCPU = round(jobs.rate()), jobs.each(jobs.own), jobs.each(jobs.redis)
}

func (r *report) memory(looks []look) { r.Worker = looks }

// compare fills in the ratios.
func (r *report) compare() {
	r.Seconds = round(time.Since(r.Started).Seconds())
	a, d := r.Idle["a"], r.Idle["d"]
	r.Ratios = ratios{
		IdleP50: ratio(d.P50, a.P50), IdleP99: ratio(d.P99, a.P99), IdleGVisorP50: ratio(r.Idle["e"].P50, a.P50),
		CrowdedP50: ratio(r.Idle["crowded"].P50, d.P50), CommandP50: ratio(r.Idle["command"].P50, a.P50),
		DockerRunP50: ratio(r.Idle["b"].P50, a.P50), LoopP50: ratio(r.Idle["c"].P50, a.P50),
	}
	for _, f := range r.Full {
		if x := f.Ratio; r.Ratios.Throughput == nil || x < *r.Ratios.Throughput {
			r.Ratios.Throughput = &x
		}
	}
	if q := r.Queue; q != nil {
		r.Ratios.Queue, r.Ratios.Submit = ratio(q.Fleet, q.Asynq), ratio(q.Submit, q.AsynqEnqueue)
	}
	if n := len(r.Worker); n > 1 {
		r.Ratios.MemoryGrowth = ratio(float64(r.Worker[n-1].RSSBytes), float64(r.Worker[1].RSSBytes))
	}
}

// write prints the table and the line of JSON.
func (r *report) write(w io.Writer) error {
	r.compare()
	var text strings.Builder
	fmt.Fprintf(&text, "plan %s, %.0f s, %v processors, load %v at the start\n\n", r.Plan, r.Seconds, r.Machine["processors"], r.Machine["load"])
	t := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	r.tableIdle(t)
	r.tableSteps(t)
	r.tableFull(t)
	r.tableQueue(t)
	r.tableRest(t)
	r.tableAtRest(t)
	if err := t.Flush(); err != nil {
		return err
	}
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n%s\n", text.String(), line)
	return err
}

func (r *report) tableIdle(w io.Writer) {
	if len(r.Idle) == 0 {
		return
	}
	fmt.Fprintf(w, "one at a time, ms\tp50\tp95\tp99\tmin\tn\tp50 / (a)\n")
	for _, row := range [][2]string{
		{"a", "(a) cold python3"}, {"b", "(b) docker run --rm"}, {"c", "(c) engine API loop"}, {"d", "(d) fleet, traced"},
		{"crowded", "    with finished jobs in Redis"}, {"command", "    by enqueuer trace"}, {"e", "(e) fleet, traced, gVisor"},
	} {
		x, ok := r.Idle[row[0]]
		if !ok || x.N == 0 {
			fmt.Fprintf(w, "%s\tnot available\n", row[1])
			continue
		}
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%d\t%.2f\n", row[1], x.P50, x.P95, x.P99, x.Min, x.N, x.P50/r.Idle["a"].P50)
	}
	fmt.Fprintln(w)
}

func (r *report) tableSteps(w io.Writer) {
	if len(r.order) == 0 {
		return
	}
	fmt.Fprintf(w, "(c) in steps, p50 ms")
	for _, name := range r.order {
		fmt.Fprintf(w, "\t%s %.2f", name, r.Steps[name])
	}
	fmt.Fprintf(w, "\n(d) in phases, mean ms")
	for _, name := range []string{"wait", "launch", "run", "total"} {
		fmt.Fprintf(w, "\t%s %.2f", name, r.Phases[name])
	}
	fmt.Fprint(w, "\n\n")
}

func (r *report) tableFull(w io.Writer) {
	if len(r.Full) == 0 {
		return
	}
	fmt.Fprintf(w, "(f) queue full, jobs/s\t(c)\tfleet\tfleet / (c)\n")
	for _, f := range r.Full {
		fmt.Fprintf(w, "%d at once\t%.1f\t%.1f\t%.2f\n", f.Slots, f.Loop, f.Fleet, f.Ratio)
	}
	fmt.Fprintln(w)
}

func (r *report) tableQueue(w io.Writer) {
	q := r.Queue
	if q == nil {
		return
	}
	fmt.Fprintf(w, "(g) without sandboxes, per s\tasynq\tfleet\tfleet / asynq\tfleet, traced\n")
	fmt.Fprintf(w, "submitted\t%.0f\t%.0f\t%.2f\t\n", q.AsynqEnqueue, q.Submit, q.Submit/q.AsynqEnqueue)
	fmt.Fprintf(w, "done\t%.0f\t%.0f\t%.2f\t%.0f\n", q.Asynq, q.Fleet, q.Fleet/q.Asynq, q.Traced)
	fmt.Fprintf(w, "processor time of each, µs\t%.0f\t%.0f\t\t%.0f\n", q.AsynqCPU, q.FleetCPU, q.TracedCPU)
	fmt.Fprintf(w, "    and of Redis, µs\t%.0f\t%.0f\t\t%.0f\n\n", q.AsynqRedisCPU, q.FleetRedisCPU, q.TracedRedisCPU)
}

func (r *report) tableRest(w io.Writer) {
	if len(r.Sizes) > 0 {
		fmt.Fprintf(w, "(h) results\tevents\tJSON bytes\tstored bytes\n")
		for _, s := range r.Sizes {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", s.Program, s.Events, s.JSONBytes, s.StoredBytes)
		}
		fmt.Fprintln(w)
	}
	if len(r.Worker) > 0 {
		fmt.Fprintf(w, "(i) worker after jobs\tRSS MiB\tgoroutines\n")
		for _, l := range r.Worker {
			fmt.Fprintf(w, "%d\t%.1f\t%d\n", l.Jobs, float64(l.RSSBytes)/(1<<20), l.Goroutines)
		}
		fmt.Fprintln(w)
	}
}
