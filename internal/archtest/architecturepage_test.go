package archtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execra/tracefleet/internal/archtest"
)

// TestArchitecturePage holds the table in docs/architecture.md to the packages that the rules know: a
// reader who looks for one finds what it is for.
func TestArchitecturePage(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range archtest.Tracefleet().Layers {
		for _, dir := range layer.Packages {
			sources, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
			if err != nil {
				t.Fatal(err)
			}
			if len(sources) > 0 && !strings.Contains(string(page), "`"+dir+"`") {
				t.Errorf("docs/architecture.md does not say what %s is for", dir)
			}
		}
	}
}
