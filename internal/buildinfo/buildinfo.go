// Package buildinfo tells which build of Tracefleet is running.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// version is set by the linker in releases:
//
//	go build -ldflags "-X github.com/execra/tracefleet/internal/buildinfo.version=v1.2.3"
var version string

// Info describes a build.
type Info struct {
	// Version is the release, or the module's version as the go command knows it, or "devel".
	Version string `json:"version"`
	// Revision is the commit, with "-dirty" behind it when files had been changed; empty
	// when the go command did not know.
	Revision string `json:"revision"`
	// Time is the commit's time in RFC 3339, or empty.
	Time      string `json:"time"`
	GoVersion string `json:"go"`
	Platform  string `json:"platform"`
}

// Get returns what is known of the running program.
func Get() Info {
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		bi = &debug.BuildInfo{}
	}
	return from(bi, version)
}

func from(bi *debug.BuildInfo, linked string) Info {
	info := Info{
		Version: "devel", GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if v := bi.Main.Version; v != "" && v != "(devel)" {
		info.Version = v
	}
	if linked != "" {
		info.Version = linked
	}
	dirty := false
	for _, s := range bi.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Revision = s.Value
		case "vcs.time":
			info.Time = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty && info.Revision != "" {
		info.Revision += "-dirty"
	}
	return info
}

// String gives one line such as "v1.2.3 (1a2b3c4d5e6f, go1.26.8 linux/amd64)".
func (i Info) String() string {
	parts := []string{i.GoVersion + " " + i.Platform}
	if hash, dirty, _ := strings.Cut(i.Revision, "-"); hash != "" {
		short := hash[:min(len(hash), 12)]
		if dirty != "" {
			short += "-" + dirty
		}
		parts = append([]string{short}, parts...)
	}
	return fmt.Sprintf("%s (%s)", i.Version, strings.Join(parts, ", "))
}
