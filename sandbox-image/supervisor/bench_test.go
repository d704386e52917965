//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// BenchmarkJobToEnd measures from handing a job to a waiting container until
// END has arrived, through the docker command's pipes. Run it as
//
//	go test -run '^$' -bench JobToEnd -benchtime 50x ./sandbox-image/supervisor
func BenchmarkJobToEnd(b *testing.B) {
	for _, mode := range []string{"off", "full"} {
		b.Run(mode, func(b *testing.B) {
			info := aJob("print(1)\n")
			info.TraceMode = mode
			var total time.Duration
			var program int64
			for range b.N {
				b.StopTimer()
				box := startBox(b, boxOptions{})
				b.StartTimer()
				got := box.run(info)
				if got.end == nil || got.end.ExitCode != 0 {
					b.Fatalf("got %+v, FAIL %q", got.end, got.fail)
				}
				total += got.took
				program += got.end.WallMS
			}
			b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), "ms/job")
			b.ReportMetric(float64(program)/float64(b.N), "program-ms/job")
		})
	}
}

// BenchmarkIdleMemory reports the resident memory of a waiting supervisor.
func BenchmarkIdleMemory(b *testing.B) {
	for range b.N {
		box := startBox(b, boxOptions{})
		pid, err := exec.Command("docker", "inspect", "--format", "{{.State.Pid}}", box.name).Output()
		if err != nil {
			b.Fatal(err)
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%s/status", strings.TrimSpace(string(pid))))
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(string(status)) {
			var kB float64
			if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kB); err == nil {
				b.ReportMetric(kB, "rss-kB")
			}
			if _, err := fmt.Sscanf(line, "RssAnon: %f kB", &kB); err == nil {
				b.ReportMetric(kB, "anon-kB")
			}
			if _, err := fmt.Sscanf(line, "Threads: %f", &kB); err == nil {
				b.ReportMetric(kB, "threads")
			}
		}
	}
}
