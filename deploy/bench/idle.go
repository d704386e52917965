package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// idleSlots is the concurrency of the fleets whose idle latency is measured.
const idleSlots = 2

// idle measures (a) to (e): how long one job takes while nothing else happens. The fleet appears
// three times: asked by a client that is connected, asked by the enqueuer command, and with
// many finished jobs in its Redis.
func (b *bench) idle(ctx context.Context) error {
	fleets := map[string]*fleet{"d": b.home}
	if b.crowded != nil {
		f, err := b.startFleet(ctx, b.crowded, fleetOptions{name: "crowded", concurrency: idleSlots})
		if err != nil {
			return err
		}
		fleets["crowded"] = f
	}
	runtimes, err := b.bare.runtimes(ctx)
	if err != nil {
		return err
	}
	if runtimes["runsc"] {
		s, err := b.startRedis(ctx)
		if err != nil {
			return err
		}
		if fleets["e"], err = b.startFleet(ctx, s, fleetOptions{name: "gvisor", concurrency: idleSlots, runtime: "runsc"}); err != nil {
			return err
		}
	}
	steps := make([]step, len(stepNames()))
	for i, name := range stepNames() {
		steps[i].name = name
	}
	all := []*contender{
		{name: "a", every: 1, ready: always, once: b.bare.python},
		{name: "b", every: b.plan.ContainerEvery, ready: always, once: b.bare.run},
		{name: "c", every: b.plan.ContainerEvery, ready: always, once: func(ctx context.Context) (time.Duration, error) { return b.bare.loop(ctx, steps) }},
		{name: "command", every: 1, ready: b.home.settle, once: b.command},
	}
	for name, f := range fleets {
		all = append(all, &contender{name: name, every: 1, ready: f.settle, once: f.client.answer})
	}
	// The first of everything fills caches.
	if err := interleave(ctx, 1, all); err != nil {
		return err
	}
	for _, c := range all {
		c.took = nil
	}
	before, err := b.home.metrics(ctx)
	if err != nil {
		return err
	}
	if err := interleave(ctx, b.plan.IdleRounds, all); err != nil {
		return err
	}
	after, err := b.home.metrics(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		b.report.idle(c.name, c.took)
	}
	b.report.phases(before, after)
	b.report.steps(steps)
	for name, f := range fleets {
		if name == "d" {
			continue // the other parts use it
		}
		if err := f.stop(); err != nil {
			return err
		}
	}
	return nil
}

// command is the time that an outside program sees: start enqueuer trace, and have its output.
func (b *bench) command(ctx context.Context) (time.Duration, error) {
	file := filepath.Join(b.dir, "main.py")
	if err := os.WriteFile(file, []byte(hello().Files["main.py"]), 0o600); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(b.bin, "enqueuer"), "trace", "--redis", b.home.redis.url(), "--format", "json", file)
	start := time.Now()
	out, err := cmd.Output()
	took := time.Since(start)
	if err == nil && !bytes.Contains(out, []byte(`"status":"ok"`)) {
		err = fmt.Errorf("it printed %.200q", out)
	}
	return took, err
}
