//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sampleCgroup finds the cgroup that the files below testdata describe.
func sampleCgroup(t *testing.T, version string) *cgroup {
	t.Helper()
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	proc := t.TempDir()
	for _, name := range []string{"cgroup", "mountinfo"} {
		text, err := os.ReadFile(filepath.Join("testdata", version, "proc", name))
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.ReplaceAll(string(text), "TESTDATA", testdata))
		if err := os.WriteFile(filepath.Join(proc, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := findCgroup(proc)
	t.Cleanup(c.close)
	return c
}

// counters is everything that a cgroup tells.
type counters struct {
	CPU                                      time.Duration
	CPUKnown                                 bool
	OOM, Forks, PeakMemory, Tasks, PeakTasks int64
}

func readAll(c *cgroup) counters {
	cpu, ok := c.cpuTime()
	return counters{cpu, ok, c.oomKills(), c.forksRefused(), c.peakMemory(), c.tasks(), c.peakTasks()}
}

func TestCgroupCounters(t *testing.T) {
	t.Parallel()
	tests := map[string]counters{
		"v1": {30286318 * time.Nanosecond, true, 3, 5, 4866048, 2, 7},
		"v2": {1234567 * time.Microsecond, true, 2, 8, 9437184, 3, 11},
	}
	for version, want := range tests {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := sampleCgroup(t, version)
			if c.version != version {
				t.Errorf("version: got %q", c.version)
			}
			for range 2 { // the files are read anew each time
				if diff := cmp.Diff(want, readAll(c)); diff != "" {
					t.Errorf("counters (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestCgroupThatCannotBeRead(t *testing.T) {
	t.Parallel()
	c := findCgroup(t.TempDir())
	want := counters{0, false, unknown, unknown, unknown, unknown, unknown}
	if diff := cmp.Diff(want, readAll(c)); diff != "" || c.version != "" {
		t.Errorf("version %q, counters (-want +got):\n%s", c.version, diff)
	}
	c.close()
}

func TestCgroupFolders(t *testing.T) {
	t.Parallel()
	const id = "/docker/364980b8"
	tests := map[string]struct {
		membership, mounts string
		want               map[string]string
	}{
		"the host's namespace": {
			"4:memory:" + id + "\n0::/\n",
			"84 80 0:32 " + id + " /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			map[string]string{"memory": "/sys/fs/cgroup/memory"},
		},
		"not in a container": {
			"4:memory:/user/1\n",
			"84 80 0:32 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			map[string]string{"memory": "/sys/fs/cgroup/memory/user/1"},
		},
		"a namespace made after the mount": {
			"0::/\n",
			"84 80 0:32 /../../x /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
			map[string]string{"": "/sys/fs/cgroup"},
		},
		"a colon in the path":   {"0::/a:b\n", "1 1 0:1 / /c ro - cgroup2 cgroup rw\n", map[string]string{"": "/c/a:b"}},
		"a similar prefix":      {"0::/docker2\n", "1 1 0:1 /docker /c ro - cgroup2 cgroup rw\n", map[string]string{"": "/c"}},
		"nonsense":              {"x\n::\n", "1 2 3\n - \nsome words - cgroup\n", map[string]string{}},
		"a controller not ours": {"4:memory:/\n", "1 1 0:1 / /c ro - cgroup cgroup rw,cpu\n", map[string]string{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, cgroupFolders(tt.membership, tt.mounts)); diff != "" {
				t.Errorf("folders (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStat(t *testing.T) {
	t.Parallel()
	page := int64(os.Getpagesize())
	tests := map[string]struct {
		stat string
		want use
	}{
		"plain":                     {"7 (python3) S 1 7 7 0 -1 4194304 1 0 0 0 10 20 30 40 20 0 1 0 1 1 3", use{time.Second, 1, 3 * page}},
		"a name made to mislead us": {"7 (a) b (c 9 9) S 1 7 7 0 -1 4194304 1 0 0 0 1 2 3 4 20 0 7 0 1 1 2", use{100 * time.Millisecond, 7, 2 * page}},
		"cut":                       {"7 (python3) S 1 7", use{}},
		"empty":                     {"", use{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proc := t.TempDir()
			for _, pid := range []string{"1", "7"} { // of which 1 does not count
				if err := os.MkdirAll(filepath.Join(proc, pid), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(proc, pid, "stat"), []byte(tt.stat), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got := liveUse(proc); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestLiveUse(t *testing.T) {
	t.Parallel()
	got := liveUse("/proc")
	if got.cpu <= 0 || got.tasks <= 0 {
		t.Fatalf("got %+v for a machine with processes", got)
	}
}
