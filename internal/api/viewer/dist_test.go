package viewer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBuiltFilesMatchTheirSources fails when web/ was changed and not built, or
// a built file was changed by hand.
func TestBuiltFilesMatchTheirSources(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Sources, Built map[string]string }
	if err := json.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	err = filepath.WalkDir("web", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "node_modules":
			return fs.SkipDir
		case entry.IsDir() || entry.Name() == ".gitignore":
			return nil
		}
		name, err := filepath.Rel("web", path)
		sources[filepath.ToSlash(name)] = fileHash(t, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(manifest.Sources, sources); diff != "" {
		t.Errorf("sources are not those of the build (-built +now); run make viewer:\n%s", diff)
	}
	for name, want := range manifest.Built {
		if got := fileHash(t, name); got != want {
			t.Errorf("%s is not what was built; run make viewer", name)
		}
	}
}

func fileHash(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// TestSourcesMakeNoMarkup keeps ways to turn text into markup or code out of the
// page, whatever its policy would stop.
func TestSourcesMakeNoMarkup(t *testing.T) {
	t.Parallel()
	never := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function|srcdoc|https?://`)
	err := filepath.WalkDir("web/src", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if found := never.FindString(string(data)); found != "" {
			t.Errorf("%s has %q", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile("web/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(lock), `"resolved"`) {
		t.Error("package-lock.json names the registry it was made with")
	}
}
