package doctor

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestJudgeVersion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text   string
		floors []floor
		want   []string // CVEs in the row; none for ok
	}{
		"runc of Debian 12":       {"1.1.5+ds1-1+deb12u1", runcFloors, []string{"CVE-2024-21626", "CVE-2025-31133"}},
		"runc between":            {"1.1.12", runcFloors, []string{"CVE-2025-31133"}},
		"runc, an old good line":  {"v1.2.8-0-geeb7e60", runcFloors, nil},
		"runc, just below":        {"1.3.2", runcFloors, []string{"CVE-2025-31133"}},
		"runc, just good":         {"1.3.3", runcFloors, nil},
		"runc, newer line":        {"1.5.0", runcFloors, nil},
		"engine, old":             {"20.10.24+dfsg1", engineFloors, []string{"57b2290", "CVE-2024-41110", "CVE-2026-41567"}},
		"engine, newest":          {"29.5.1", engineFloors, nil},
		"engine, between":         {"28.5.2", engineFloors, []string{"CVE-2026-41567"}},
		"kernel, old line, fixed": {"5.15.149-generic", kernelFloors, nil},
		"kernel, dirty pipe":      {"5.15.10", kernelFloors, []string{"CVE-2022-0847", "CVE-2024-1086"}},
		"kernel, new":             {"6.18.44-fc-v657", kernelFloors, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := judgeVersion("x", c.text, c.floors)
			if (row.Status == OK) != (len(c.want) == 0) || (row.Remedy == "") != (len(c.want) == 0) {
				t.Errorf("got %+v, want %v", row, c.want)
			}
			for _, f := range c.floors {
				wanted := slices.ContainsFunc(c.want, func(cve string) bool { return strings.Contains(f.cves, cve) })
				if got := strings.Contains(row.Detail, f.cves); got != wanted {
					t.Errorf("%s: got mentioned %v, want %v: %s", f.cves, got, wanted, row.Detail)
				}
			}
		})
	}
	if row := judgeVersion("x", "a commit", runcFloors); row.Status != Warn || row.Remedy == "" {
		t.Errorf("got %+v for a text without a version, want a warning with a remedy", row)
	}
}

func TestHostRows(t *testing.T) {
	t.Parallel()
	good := Host{CorePattern: "core", IOUring: "2", UnprivilegedBPF: "2", Disk: &Disk{Path: "/d", FreeBytes: 9 << 30, Bytes: 20 << 30, FreeInodes: 1 << 20, Inodes: 2 << 20}}
	bad := Host{CorePattern: "|/usr/share/apport", IOUring: "0", UnprivilegedBPF: "0", Swaps: 1, Disk: &Disk{Path: "/d", FreeBytes: 9 << 30, Bytes: 20 << 30, FreeInodes: 5, Inodes: 2 << 20}}
	full := good
	full.Disk = &Disk{Path: "/d", FreeBytes: 1 << 20, Bytes: 20 << 30}
	for name, c := range map[string]struct {
		host Host
		want map[string]Status
	}{
		"good":    {good, map[string]Status{}},
		"unknown": {Host{}, map[string]Status{}},
		"bad":     {bad, map[string]Status{"core dumps": Warn, "io_uring": Warn, "bpf": Warn, "swap": Warn, "disk": Warn}},
		"full":    {full, map[string]Status{"disk": Warn}},
	} {
		if diff := cmp.Diff(c.want, notOK(t, c.host.Rows())); diff != "" {
			t.Errorf("%s: rows that are not ok (-want +got):\n%s", name, diff)
		}
	}
}

func TestReadHost(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for path, text := range map[string]string{
		"proc/sys/kernel/core_pattern": "|/x %p\n", "proc/sys/kernel/io_uring_disabled": "2\n", "proc/swaps": "Filename Type\n/dev/sda2 partition\n", "var/lib/docker/x": "",
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := ReadHost(root, "/var/lib/docker")
	if h.Disk == nil || h.Disk.Bytes == 0 || h.Disk.Path != "/var/lib/docker" {
		t.Errorf("got disk %+v, want that of the folder", h.Disk)
	}
	h.Disk = nil
	if diff := cmp.Diff(Host{CorePattern: "|/x %p", IOUring: "2", Swaps: 1}, h); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if ReadHost(root, "/elsewhere").Disk != nil {
		t.Error("got a disk of a folder that is not there")
	}
}

func TestRedisAccess(t *testing.T) {
	t.Parallel()
	for address, c := range map[string]struct {
		file bool
		want map[string]Status
	}{
		"redis://127.0.0.1:6379/0":               {false, map[string]Status{}},
		"unix:///run/redis.sock":                 {false, map[string]Status{}},
		"redis://redis:6379/0":                   {false, map[string]Status{"redis access": Warn, "redis wire": Warn}},
		"redis://:pw@redis:6379/0":               {false, map[string]Status{"redis wire": Warn}},
		"redis://worker@redis:6379/0":            {true, map[string]Status{"redis wire": Warn}},
		"rediss://worker:pw@redis:6379/0":        {false, map[string]Status{}},
		"rediss+cluster://worker:pw@a:1,b:2":     {false, map[string]Status{}},
		"redis+sentinel://a:1,b:2/0?master=fist": {false, map[string]Status{"redis access": Warn, "redis wire": Warn}},
	} {
		rows := RedisAccess(address, c.file)
		if diff := cmp.Diff(c.want, notOK(t, rows)); diff != "" {
			t.Errorf("%s: rows that are not ok (-want +got):\n%s", address, diff)
		}
		for _, row := range rows {
			if strings.Contains(row.Detail, "pw") {
				t.Errorf("%s: a row has the password: %+v", address, row)
			}
		}
	}
}

// TestGolden keeps both forms of everything that can be wrong at once.
func TestGolden(t *testing.T) {
	t.Parallel()
	volatile := goodRedis()
	volatile.AppendOnly = false
	rows := append(Redis("redis://redis:6379/0", volatile, nil), RedisAccess("redis://redis:6379/0", false)...)
	rows = append(rows, Engine{
		Name: "docker", Version: "20.10.24", APIVersion: "1.41", OCIRuntime: "runc", RuncVersion: "1.1.5+ds1-1+deb12u1", Kernel: "5.10.60", StorageDriver: "overlay2",
		CgroupVersion: "1", CgroupDriver: "cgroupfs", SecurityOptions: []string{"seccomp"}, Warnings: []string{"WARNING: No blkio support"}, Image: "i", ImageID: "sha256:1",
	}.Rows()...)
	rows = append(rows, Host{CorePattern: "|/usr/share/apport", IOUring: "0", UnprivilegedBPF: "0", Swaps: 1}.Rows()...)
	rows = append(rows, Canary(errors.New("the sandbox does not hold what it promises: Seccomp is \"0\", want \"2\"")))
	for name, write := range map[string]func(io.Writer, []Row) error{"doctor.txt": Text, "doctor.json": JSON} {
		var got bytes.Buffer
		if err := write(&got, rows); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
