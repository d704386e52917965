package ledger

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/redistest"
)

func TestCheckServer(t *testing.T) {
	t.Parallel()
	t.Run("good", func(t *testing.T) {
		t.Parallel()
		rdb := redistest.Start(t, redistest.Options{AppendOnly: true, MaxMemoryBytes: 64 << 20}).Client()
		f, err := CheckServer(t.Context(), rdb)
		if err != nil || len(f.Warnings) != 0 || !f.AppendOnly || f.Embedded || f.Mode != "standalone" || f.MaxMemoryBytes != 64<<20 || f.UsedMemoryBytes == 0 {
			t.Errorf("facts %+v, error %v", f, err)
		}
	})
	t.Run("risky", func(t *testing.T) {
		t.Parallel()
		f, err := CheckServer(t.Context(), redistest.Start(t, redistest.Options{}).Client())
		if err != nil || len(f.Warnings) != 2 {
			t.Errorf("facts %+v, error %v", f, err)
		}
	})
	t.Run("evicting", func(t *testing.T) {
		t.Parallel()
		rdb := redistest.Start(t, redistest.Options{Args: []string{"--maxmemory-policy", "allkeys-lru"}}).Client()
		if f, err := CheckServer(t.Context(), rdb); err == nil || !strings.Contains(err.Error(), "noeviction") || f.Policy != "allkeys-lru" {
			t.Errorf("facts %+v, error %v", f, err)
		}
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		f, err := CheckServer(t.Context(), redistest.Client(t, miniredis.RunT(t).Addr()))
		if err != nil || !f.Embedded || len(f.Warnings) != 1 {
			t.Errorf("facts %+v, error %v", f, err)
		}
	})
	t.Run("away", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.Options{})
		rdb := server.Client()
		server.Kill()
		if _, err := CheckServer(t.Context(), rdb); err == nil || !strings.Contains(err.Error(), "reach Redis") {
			t.Errorf("got %v", err)
		}
	})
}

func TestServerVersions(t *testing.T) {
	t.Parallel()
	for version, wantFault := range map[string]bool{
		"5.0.14": true, "6.0.16": true, "6.2.0": false, "7.0.15": false, "8.2.1": false, "255.255.255": false, "": true, "unstable": true,
	} {
		f := ServerFacts{Version: version, Policy: "noeviction"}
		if got := len(f.faults()) > 0; got != wantFault {
			t.Errorf("version %q: fault %v, want %v", version, got, wantFault)
		}
	}
}

func TestParseInfo(t *testing.T) {
	t.Parallel()
	got := parseInfo("# Server\r\nredis_version:7.0.15\r\nodd\r\n\r\nexecutable:/a:b\r\n")
	if diff := cmp.Diff(map[string]string{"redis_version": "7.0.15", "executable": "/a:b"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
