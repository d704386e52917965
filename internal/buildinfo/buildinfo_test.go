package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestFrom(t *testing.T) {
	t.Parallel()
	platform := runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
			{Key: "vcs.modified", Value: modified},
		}
	}
	for name, c := range map[string]struct {
		build  debug.BuildInfo
		linked string
		want   string
	}{
		"nothing known":   {debug.BuildInfo{}, "", "devel (" + platform + ")"},
		"built from here": {debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs("false")}, "", "devel (0123456789ab, " + platform + ")"},
		"changed files":   {debug.BuildInfo{Settings: vcs("true")}, "", "devel (0123456789ab-dirty, " + platform + ")"},
		"installed":       {debug.BuildInfo{Main: debug.Module{Version: "v1.0.0"}}, "", "v1.0.0 (" + platform + ")"},
		"released":        {debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-x"}}, "v1.2.3", "v1.2.3 (" + platform + ")"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := from(&c.build, c.linked).String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	if got := Get(); got.Version == "" || got.GoVersion == "" || got.Platform == "" {
		t.Errorf("got %+v, want version, Go version and platform known", got)
	}
}
