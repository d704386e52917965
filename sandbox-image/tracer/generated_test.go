package tracer_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// generatedPrograms is how many programs TestGenerated makes, unless the
// environment variable GENERATED says otherwise.
const generatedPrograms = 100

// TestGenerated runs random programs plainly and traced: they must end and
// print the same. testdata/seeds.txt names programs that once did not.
func TestGenerated(t *testing.T) {
	t.Parallel()
	here, err := filepath.Abs("tests")
	if err != nil {
		t.Fatal(err)
	}
	count := strconv.Itoa(generatedPrograms)
	if more := os.Getenv("GENERATED"); more != "" {
		count = more
	}
	seeds, err := os.ReadFile("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if err := os.Chmod(out, 0o777); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"run", "--rm", "--label", "tracefleet.test=tracer", "--network", "none", "--memory", containerSize, "--pids-limit", "100",
		"--tmpfs", "/job:mode=1777,size=32m", "--tmpfs", "/tmp:mode=1777,size=32m", "--entrypoint", "/usr/bin/python3",
		"-v", here + ":/tests:ro", "-v", out + ":/out", image, "/tests/generated.py", "/out", "1", count,
	}
	args = append(args, strings.Fields(string(seeds))...)
	if said, err := exec.CommandContext(t.Context(), "docker", args...).CombinedOutput(); err != nil {
		t.Fatalf("run in %s (is the image there? run `make setup`): %v\n%s", image, err, said)
	}
	data, err := os.ReadFile(filepath.Join(out, "generated.json"))
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Programs  int `json:"programs"`
		Differing []struct {
			Seed          int
			Plain, Traced string
		} `json:"differing"`
	}
	if err := json.Unmarshal(data, &found); err != nil {
		t.Fatal(err)
	}
	for _, d := range found.Differing {
		t.Errorf("seed %d:\nplain:  %s\ntraced: %s", d.Seed, d.Plain, d.Traced)
	}
	if found.Programs < 10 {
		t.Errorf("got %d programs, want some", found.Programs)
	}
}
