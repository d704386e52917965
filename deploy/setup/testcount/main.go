// Command testcount reads the output of "go test -json", prints a line a
// package and the full output of what failed, and ends with one line that counts tests:
//
//	412 passed, 0 failed, 0 skipped
//
// Its exit status is 1 when a test or a package failed, when nothing ran, and,
// with CI set in the environment, when a test was skipped. With -v it prints a
// line a test as well. With -again N it runs up to N failed tests once more, each
// alone, and names those that pass then as flaky: what many processes do on a busy
// machine shall not cost a whole run, and shall not go unseen.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	each := flag.Bool("v", false, "print a line a test")
	again := flag.Int("again", 0, "run up to `N` failed tests once more, each alone; more than N, and none is")
	flag.Parse()
	c := newCounter(os.Stdout, *each)
	if err := c.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
		os.Exit(1)
	}
	c.tryAgain(*again, runAlone)
	if err := c.finish(os.Getenv("CI") != "" && os.Getenv("CI") != "false"); err != nil {
		os.Exit(1) // the last line has said it
	}
}

// event is one line of go test -json; see go doc test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Elapsed    float64
	Output     string
}

// test names a test or subtest.
type test struct{ pkg, name string }

// counter counts tests that have no subtests, and those that failed by themselves.
type counter struct {
	w       io.Writer
	each    bool
	output  map[test][]string // what is held back until the verdict is known
	build   map[string][]string
	parents map[test]bool
	inPkg   map[string]int

	passed, failed, skipped int
	broken                  []string // packages that failed outside any test
	failedIn                map[string]bool
	failures                map[test]int // of a test with its subtests, by the whole test
	childFailed             map[test]bool
}

func newCounter(w io.Writer, each bool) *counter {
	return &counter{w: w, each: each, output: map[test][]string{}, build: map[string][]string{}, parents: map[test]bool{},
		inPkg: map[string]int{}, failedIn: map[string]bool{}, failures: map[test]int{}, childFailed: map[test]bool{}}
}

// read consumes the whole stream. Lines that are no JSON are passed on.
func (c *counter) read(r io.Reader) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(c.w, "%s", line)
			} else {
				c.take(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read test output: %w", err)
		}
	}
}

func (c *counter) take(e event) {
	key := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		c.build[e.ImportPath] = append(c.build[e.ImportPath], e.Output)
	case "build-fail":
		c.print(c.build[e.ImportPath])
		delete(c.build, e.ImportPath)
	case "run":
		if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
			c.parents[test{e.Package, e.Test[:i]}] = true
		}
	case "output":
		c.output[key] = append(c.output[key], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			c.packageDone(e)
		} else {
			c.testDone(e, key)
		}
		delete(c.output, key)
	}
}

func (c *counter) testDone(e event, key test) {
	if e.Action != "pass" {
		c.print(c.output[key])
	}
	if e.Action == "fail" {
		c.failedIn[e.Package] = true
		if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
			c.childFailed[test{e.Package, e.Test[:i]}] = true
		}
	}
	if c.parents[key] && (e.Action != "fail" || c.childFailed[key]) {
		return // its subtests have been counted
	}
	c.inPkg[e.Package]++
	switch e.Action {
	case "pass":
		c.passed++
	case "fail":
		c.failed++
		whole, _, _ := strings.Cut(e.Test, "/")
		c.failures[test{e.Package, whole}]++
	case "skip":
		c.skipped++
	}
	if c.each {
		fmt.Fprintf(c.w, "%s %s.%s (%.2fs)\n", e.Action, short(e.Package), e.Test, e.Elapsed)
	}
}

func (c *counter) packageDone(e event) {
	word := "ok  "
	if e.Action == "fail" {
		word = "FAIL"
		if !c.failedIn[e.Package] {
			c.broken = append(c.broken, e.Package)
			c.print(c.output[test{pkg: e.Package}])
		}
	}
	if e.Action == "fail" || c.inPkg[e.Package] > 0 {
		fmt.Fprintf(c.w, "%s %s: %d tests, %.1f s\n", word, short(e.Package), c.inPkg[e.Package], e.Elapsed)
	}
}

// finish prints the last line and tells whether all is well.
func (c *counter) finish(skipsFail bool) error {
	for t, lines := range c.output { // a test without a verdict: its package died
		if t.name != "" {
			fmt.Fprintf(c.w, "no verdict on %s.%s\n", short(t.pkg), t.name)
			c.print(lines)
		}
	}
	failed := c.failed + len(c.broken)
	fmt.Fprintf(c.w, "%d passed, %d failed, %d skipped\n", c.passed, failed, c.skipped)
	if failed > 0 || c.passed == 0 || (skipsFail && c.skipped > 0) {
		return errors.New("not all tests passed")
	}
	return nil
}

func (c *counter) print(lines []string) {
	for _, line := range lines {
		fmt.Fprint(c.w, line)
	}
}

// short drops the module's name.
func short(pkg string) string {
	return strings.TrimPrefix(pkg, "github.com/execra/tracefleet/")
}
