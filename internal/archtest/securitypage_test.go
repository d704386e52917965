package archtest_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	// namedTest is a test as docs/security.md names it, with the attacks it runs.
	namedTest = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`(?: \\(([0-9, to]+)\\))?")
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
	attackRun = regexp.MustCompile(`([0-9]+)(?: to ([0-9]+))?`)
)

// TestSecurityPage holds docs/security.md to the tests and attacks that exist.
// A promise without a test would otherwise outlive it.
func TestSecurityPage(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := testsBelow(t, root)
	named := namedTest.FindAllStringSubmatch(string(page), -1)
	if len(named) < 30 {
		t.Fatalf("the page names %d tests: the pattern no longer fits", len(named))
	}
	for _, name := range named {
		if !tests[name[1]] {
			t.Errorf("docs/security.md names %s, which is no test", name[1])
		}
		for _, attack := range attacks(name[2]) {
			found, err := filepath.Glob(filepath.Join(root, "internal", "e2e", "testdata", "attacks", attack+"_*"))
			if err != nil || len(found) != 1 {
				t.Errorf("docs/security.md names attack %s, which does not exist: %v", attack, err)
			}
		}
	}
}

// attacks lists the numbers of a text such as "01 to 04, 24".
func attacks(text string) (numbers []string) {
	for _, span := range attackRun.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(span[1]) // digits only
		last := first
		if span[2] != "" {
			last, _ = strconv.Atoi(span[2])
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, fmt.Sprintf("%02d", n))
		}
	}
	return numbers
}

// testsBelow returns the names of all Go tests and fuzz targets below root.
func testsBelow(t *testing.T, root string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || d.Name() != ".." && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
