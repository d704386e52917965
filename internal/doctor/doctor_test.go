package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/ledger"
)

func goodRedis() ledger.ServerFacts {
	return ledger.ServerFacts{Version: "7.0.15", Mode: "standalone", Policy: "noeviction", MaxMemoryBytes: 1 << 30, UsedMemoryBytes: 1 << 20, AppendOnly: true}
}

func TestRedisRows(t *testing.T) {
	t.Parallel()
	const address = "redis://127.0.0.1:6379/0"
	evicting, full, unlimited, skewed, volatile := goodRedis(), goodRedis(), goodRedis(), goodRedis(), goodRedis()
	evicting.Policy = "allkeys-lru"
	full.UsedMemoryBytes = full.MaxMemoryBytes
	unlimited.MaxMemoryBytes = 0
	skewed.Skew = -time.Minute
	volatile.AppendOnly = false

	tests := map[string]struct {
		facts ledger.ServerFacts
		err   error
		want  map[string]Status // the rows that are not ok
	}{
		"good":        {facts: goodRedis(), want: map[string]Status{}},
		"unreachable": {err: errors.New("connection refused"), want: map[string]Status{"redis": Fail}},
		"embedded":    {facts: ledger.ServerFacts{Embedded: true}, want: map[string]Status{"redis": Warn}},
		"too old":     {facts: goodRedis(), err: errors.New("it is 6.0"), want: map[string]Status{"redis": Fail}},
		"evicting":    {facts: evicting, err: errors.New("policy"), want: map[string]Status{"redis": Fail, "redis policy": Fail}},
		"full":        {facts: full, want: map[string]Status{"redis memory": Warn}},
		"unlimited":   {facts: unlimited, want: map[string]Status{"redis memory": Warn}},
		"skewed":      {facts: skewed, want: map[string]Status{"clock": Warn}},
		"volatile":    {facts: volatile, want: map[string]Status{"redis persistence": Warn}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows := Redis(address, tt.facts, tt.err)
			if diff := cmp.Diff(tt.want, notOK(t, rows)); diff != "" {
				t.Errorf("rows that are not ok (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEngineRows(t *testing.T) {
	t.Parallel()
	good := Engine{Name: "docker", Version: "28.5.2", OCIRuntime: "runc", CgroupVersion: "2", SecurityOptions: []string{"apparmor", "seccomp"}}
	good.Kernel, good.Version, good.RuncVersion, good.StorageDriver = "6.18.44", "29.6.0", "v1.4.0-0-g1234567", "overlayfs"
	good.SecurityOptions = append(good.SecurityOptions, "rootless")
	bare := Engine{Name: "docker", Kernel: "5.10.60", StorageDriver: "vfs", Version: "20.10.24", OCIRuntime: "runsc-kvm", GVisor: true, CgroupVersion: "1", Warnings: []string{"WARNING: No blkio support"}}
	tests := map[string]struct {
		rows []Row
		want map[string]Status
	}{
		"good": {rows: good.Rows(), want: map[string]Status{}},
		"bare": {rows: bare.Rows(), want: map[string]Status{
			"seccomp": Fail, "access control": Warn, "engine warning": Warn, "engine version": Warn, "kernel version": Warn,
			"seccomp in gVisor": Warn, "user namespace": Warn, "storage driver": Warn,
		}},
		"down": {rows: EngineDown("docker", errors.New("no socket")), want: map[string]Status{"engine": Fail}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, notOK(t, tt.rows)); diff != "" {
				t.Errorf("rows that are not ok (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSharedKernelIsSaid(t *testing.T) {
	t.Parallel()
	for _, e := range []Engine{{OCIRuntime: "runc"}, {OCIRuntime: "runsc-kvm", GVisor: true}} {
		for _, r := range e.Rows() {
			if r.Name == "runtime" && strings.Contains(r.Detail, "share the kernel") == e.GVisor {
				t.Errorf("%s, gVisor %v: got %q", e.OCIRuntime, e.GVisor, r.Detail)
			}
		}
	}
}

// notOK gives the rows that are not ok, and checks that each of them has a remedy.
func notOK(t *testing.T, rows []Row) map[string]Status {
	t.Helper()
	found := map[string]Status{}
	for _, r := range rows {
		if r.Status == OK {
			continue
		}
		found[r.Name] = r.Status
		if r.Remedy == "" {
			t.Errorf("row %q is %s and has no remedy", r.Name, r.Status)
		}
	}
	return found
}

func TestForms(t *testing.T) {
	t.Parallel()
	rows := []Row{
		{Name: "redis", Status: OK, Detail: "Redis 7"},
		{Name: "seccomp", Status: Fail, Detail: "missing\nhere", Remedy: "use another"},
	}
	var text bytes.Buffer
	if err := Text(&text, rows); err != nil {
		t.Fatal(err)
	}
	want := "✓ ok    redis    Redis 7\n✗ fail  seccomp  missing here\n                 → use another\n"
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	var doc bytes.Buffer
	if err := JSON(&doc, rows); err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(doc.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(report{Healthy: false, Checks: rows}, got); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}
