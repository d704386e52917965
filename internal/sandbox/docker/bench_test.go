package docker

import (
	"context"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
)

func benchEngine(b *testing.B) *Engine {
	b.Helper()
	e, err := Open(context.Background(), Config{Fleet: "bench-" + randomHex(), Worker: "bench"}, zap.NewNop())
	if err != nil {
		b.Fatalf("Open: %v (run make setup)", err)
	}
	b.Cleanup(func() { _ = e.Close() })
	return e
}

// BenchmarkSandbox is the whole life of a cold sandbox, and its parts. Run it as
//
//	go test -run '^$' -bench . -benchtime 50x ./internal/sandbox/docker
func BenchmarkSandbox(b *testing.B) {
	e := benchEngine(b)
	j := program("print(1)\n")
	var launch, run, end, closing time.Duration
	for b.Loop() {
		start := time.Now()
		s, err := e.Launch(context.Background(), j.Limits)
		if err != nil {
			b.Fatal(err)
		}
		ready := time.Now()
		out, err := s.Run(context.Background(), j)
		if err != nil || out.End == nil {
			b.Fatalf("%+v, %v", out, err)
		}
		ran := time.Now()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		launch, run, closing, end = launch+ready.Sub(start), run+ran.Sub(ready), closing+time.Since(ran), end+out.Wall
	}
	report := func(d time.Duration, unit string) {
		b.ReportMetric(float64(d.Microseconds())/1000/float64(b.N), unit)
	}
	report(launch, "launch-ms")
	report(run, "run-ms")
	report(end, "job-to-end-ms")
	report(closing, "close-ms")
}

// BenchmarkBareEngine is what a container of the same settings costs at the
// least: create, attach, wait, start, end, remove, with the supervisor told
// to leave at once by the end of its stdin.
func BenchmarkBareEngine(b *testing.B) {
	e := benchEngine(b)
	ctx := context.Background()
	for b.Loop() {
		now := time.Now()
		asked := newSpec(e.cfg, job.DefaultLimits(), e.host, tag{
			Fleet: e.cfg.Fleet, Worker: "bench", Instance: e.instance, Launched: now, Deadline: now.Add(time.Hour),
		})
		made, err := e.cli.ContainerCreate(ctx, asked.Config, asked.HostConfig, asked.Network, nil, "")
		if err != nil {
			b.Fatal(err)
		}
		conn, r, err := e.attach(ctx, made.ID)
		if err != nil {
			b.Fatal(err)
		}
		ended, failed := e.cli.ContainerWait(ctx, made.ID, container.WaitConditionNextExit)
		if err := e.cli.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
			b.Fatal(err)
		}
		if _, err := r.ReadByte(); err != nil { // READY comes
			b.Fatal(err)
		}
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			b.Fatal(err)
		}
		select {
		case <-ended:
		case err := <-failed:
			b.Fatal(err)
		}
		_ = conn.Close()
		if err := e.cli.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
			b.Fatal(err)
		}
	}
}
