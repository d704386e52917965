package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
)

// tryAgain runs the tests that failed once more when they are at most so many and nothing worse happened, and
// counts those that pass as passed.
func (c *counter) tryAgain(most int, run func(io.Writer, test) error) {
	if len(c.failures) == 0 || len(c.failures) > most || len(c.broken) > 0 {
		return
	}
	byName := func(a, b test) int { return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.name, b.name)) }
	for _, t := range slices.SortedFunc(maps.Keys(c.failures), byName) {
		if err := run(c.w, t); err != nil {
			fmt.Fprintf(c.w, "failed again: %s.%s: %v\n", short(t.pkg), t.name, err)
			continue
		}
		fmt.Fprintf(c.w, "flaky: %s.%s failed, and passed when it ran again alone\n", short(t.pkg), t.name)
		c.failed -= c.failures[t]
		c.passed += c.failures[t]
	}
}

// runAlone runs one test as "make test" does, with nothing beside it.
func runAlone(w io.Writer, t test) error {
	cmd := exec.Command("go", "test", "-race", "-count=1", "-timeout", "10m", "-v", "-run", "^"+t.name+"$", t.pkg)
	cmd.Stdout, cmd.Stderr = w, w
	return cmd.Run()
}
