package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// sightings are the containers of a fleet that were ever seen. It looks at the
// host, not at the engine: what an engine has forgotten may still be there.
type sightings struct {
	f *fleet
	// roots are the engine's folders on this machine; none when it is elsewhere.
	roots []string

	mu  sync.Mutex
	ids map[string]bool
}

// watchContainers notes every container of the fleet from now until the test ends.
func watchContainers(t *testing.T, f *fleet) *sightings {
	t.Helper()
	s := &sightings{f: f, ids: map[string]bool{}}
	var info struct{ DockerRootDir string }
	if _, err := f.engine.get(t.Context(), "/info", &info); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{filepath.Join(info.DockerRootDir, "containers"), "/run/docker", "/run/containerd", "/var/run/docker"} {
		if _, err := os.Stat(root); err == nil {
			s.roots = append(s.roots, root)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_, _ = s.look(ctx) // the next look sees what this one missed
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return s
}

// look notes the containers that there are and returns them.
func (s *sightings) look(ctx context.Context) ([]string, error) {
	found, err := s.f.engine.containers(ctx, s.f.name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, c := range found {
		s.ids[c.ID] = true
		ids = append(ids, c.ID)
	}
	return ids, nil
}

// residue is what the host still has of containers that the engine knows no
// more: processes, mounts, cgroups, namespaces, files. A kernel clears up a
// moment after the engine has answered, so it is looked for more than once.
func (s *sightings) residue(t *testing.T) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		alive, err := s.look(ctx)
		if err != nil {
			return []string{err.Error()}
		}
		gone := s.gone(alive)
		left := slices.Concat(processesOf(gone), linesOf("/proc/self/mountinfo", gone), foldersOf("/sys/fs/cgroup", gone), s.filesOf(gone))
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return left
		case <-tick.C:
		}
	}
}

// gone lists the containers that were seen and are not alive.
func (s *sightings) gone(alive []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []string
	for id := range s.ids {
		if !slices.Contains(alive, id) {
			gone = append(gone, id)
		}
	}
	return gone
}

// processesOf finds the processes in a cgroup of one of the containers, or
// started on behalf of one. With the last of them go its namespaces.
func processesOf(ids []string) []string {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	for _, e := range entries {
		if strings.Trim(e.Name(), "0123456789") != "" {
			continue
		}
		cgroup, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cgroup")) // it may have ended since it was listed
		command, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		for _, id := range ids {
			if bytes.Contains(cgroup, []byte(id)) || bytes.Contains(command, []byte(id)) {
				left = append(left, fmt.Sprintf("process %s of %s: %q", e.Name(), id, bytes.ReplaceAll(command, []byte{0}, []byte(" "))))
			}
		}
	}
	return left
}

// linesOf finds the lines of a file that name one of the containers.
func linesOf(path string, ids []string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	for line := range strings.Lines(string(text)) {
		if slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(line, id) }) {
			left = append(left, path+": "+strings.TrimSpace(line))
		}
	}
	return left
}

// foldersOf finds folders below root that are called like one of the containers.
func foldersOf(root string, ids []string) []string {
	var left []string
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil // folders come and go while they are listed
		}
		if slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(entry.Name(), id) }) {
			left = append(left, path)
		}
		return nil
	})
	return left
}

// filesOf finds what the engine's own folders still hold of the containers.
func (s *sightings) filesOf(ids []string) []string {
	var left []string
	for _, root := range s.roots {
		left = append(left, foldersOf(root, ids)...)
	}
	return left
}
