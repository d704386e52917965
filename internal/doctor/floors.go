package doctor

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// floor is the first version of something without a known hole that matters here.
type floor struct {
	// fixed are the first good versions, one for each line that is maintained; a line that is not listed is good from the
	// last of them on.
	fixed []version
	// cves names the holes, what what they give.
	cves, what string
}

// version is major, minor and patch.
type version [3]int

// The sources are the entries of nvd.nist.gov under these names, and the projects' own advisories that they link to:
// github.com/opencontainers/runc/security and github.com/moby/moby/security. Compare them with these pages when an engine is chosen.
var (
	runcFloors = []floor{
		{[]version{{1, 1, 12}}, "CVE-2024-21626", "a descriptor leaked into the container, a way out of it"},
		{[]version{{1, 2, 8}, {1, 3, 3}, {1, 4, 0}}, "CVE-2025-31133, CVE-2025-52565, CVE-2025-52881", "races over masked paths and /dev/console"},
	}
	engineFloors = []floor{
		{[]version{{23, 0, 0}}, "moby 57b2290", "a default profile that lets sockets reach the hypervisor; the fleet sends its own"},
		{[]version{{25, 0, 6}, {26, 1, 5}, {27, 1, 1}}, "CVE-2024-41110", "authorization plugins that can be passed by"},
		{[]version{{29, 5, 1}}, "CVE-2026-41567, CVE-2026-41568, CVE-2026-42306", "docker cp; the fleet never copies, but whoever else uses this engine may"},
	}
	kernelFloors = []floor{
		{[]version{{5, 10, 102}, {5, 15, 25}, {5, 16, 11}}, "CVE-2022-0847", "writing to files that may only be read, the image's layers among them"},
		{[]version{{5, 15, 149}, {6, 1, 76}, {6, 6, 15}, {6, 7, 3}}, "CVE-2024-1086", "root by way of netfilter, where user namespaces are open"},
	}
)

var versionPattern = regexp.MustCompile(`(\d+)\.(\d+)(?:\.(\d+))?`)

// parseVersion finds the first version in a text.
func parseVersion(text string) (v version, ok bool) {
	match := versionPattern.FindStringSubmatch(text)
	if match == nil {
		return v, false
	}
	for i := range v {
		v[i], _ = strconv.Atoi(match[i+1]) // digits, or none for the patch
	}
	return v, true
}

func (v version) less(w version) bool {
	for i := range v {
		if v[i] != w[i] {
			return v[i] < w[i]
		}
	}
	return false
}

// hit tells whether v has the holes.
func (f floor) hit(v version) bool {
	for _, good := range f.fixed {
		if v[0] == good[0] && v[1] == good[1] {
			return v.less(good)
		}
	}
	return v.less(f.fixed[len(f.fixed)-1])
}

// judgeVersion is a row about a version and its known holes.
func judgeVersion(name, text string, floors []floor) Row {
	v, ok := parseVersion(text)
	if !ok {
		return Row{
			Name: name, Status: Warn, Detail: fmt.Sprintf("version %.60q cannot be understood", text), Remedy: "look yourself whether its security updates are installed",
		}
	}
	var holes []string
	for _, f := range floors {
		if f.hit(v) {
			holes = append(holes, fmt.Sprintf("%s (%s)", f.cves, f.what))
		}
	}
	if len(holes) == 0 {
		return Row{Name: name, Status: OK, Detail: text + ": none of the holes that are known here"}
	}
	remedy := "update it"
	if strings.ContainsAny(text, "+~") || strings.Contains(text, "deb") || strings.Contains(text, "el") {
		remedy = "update it, unless your distribution has put the fixes into this version: see its security tracker"
	}
	return Row{Name: name, Status: Warn, Detail: fmt.Sprintf("%s is older than the fix of %s", text, strings.Join(holes, "; ")), Remedy: remedy}
}
