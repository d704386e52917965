// Package archtest keeps the rules about what may import and call what. The
// rules stand in rules.go, each with its reason; the test of this package
// applies them to the whole module, by parsing it in-process.
package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Violation is a place that breaks a rule.
type Violation struct {
	// File is relative to the module's root; Line is from 1, or 0 for the whole file.
	File string
	Line int
	// Rule names the rule, Message says what is wrong and why the rule is there.
	Rule    string
	Message string
}

// String gives "file:line: rule: message".
func (v Violation) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", v.File, v.Line, v.Rule, v.Message)
}

// Tree is a parsed module.
type Tree struct {
	module   string
	fset     *token.FileSet
	files    []*file
	packages map[string]*pkg
}

// pkg is one folder. Its name within the module is the folder's path.
type pkg struct {
	dir   string
	name  string
	files []*file
}

func (p *pkg) isMain() bool { return p.name == "main" }

type file struct {
	path    string
	dir     string
	test    bool
	lines   int
	ast     *ast.File
	imports []imported
}

type imported struct {
	// path is the import path; for packages of the module only what follows the module's path.
	path string
	// own is true for packages of the module.
	own bool
	// local is the name that the file uses for the package.
	local string
	line  int
}

// Load parses every Go file of the module whose root is fsys. Folders that the go command
// does not look into are left out.
func Load(fsys fs.FS, module string) (*Tree, error) {
	t := &Tree{module: module, fset: token.NewFileSet(), packages: make(map[string]*pkg)}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_"):
			return nil
		}
		return t.add(fsys, name)
	})
	if err != nil {
		return nil, fmt.Errorf("parse the module: %w", err)
	}
	return t, nil
}

func (t *Tree) add(fsys fs.FS, name string) error {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(t.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	f := &file{
		path: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), ast: parsed,
		lines: strings.Count(string(src), "\n"),
	}
	for _, spec := range parsed.Imports {
		f.imports = append(f.imports, t.imported(spec))
	}
	t.files = append(t.files, f)
	p := t.packages[f.dir]
	if p == nil {
		p = &pkg{dir: f.dir}
		t.packages[f.dir] = p
	}
	if !f.test {
		p.name = parsed.Name.Name
	}
	p.files = append(p.files, f)
	return nil
}

func (t *Tree) imported(spec *ast.ImportSpec) imported {
	// The parser has checked that it is a string.
	p, _ := strconv.Unquote(spec.Path.Value)
	im := imported{path: p, local: defaultName(p), line: t.fset.Position(spec.Pos()).Line}
	if rest, ok := strings.CutPrefix(p, t.module+"/"); ok {
		im.path, im.own = rest, true
	}
	if spec.Name != nil {
		im.local = spec.Name.Name
	}
	return im
}

// defaultName guesses the name of a package from its path: the last part that
// is not a version.
func defaultName(p string) string {
	base := path.Base(p)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(p))
	}
	return base
}

// standard tells whether an import is of Go's standard library.
func (im imported) standard() bool {
	first, _, _ := strings.Cut(im.path, "/")
	return !im.own && !strings.Contains(first, ".")
}

// closure returns every import that the shipped files of dir reach, each with one file
// that imports it.
func (t *Tree) closure(dir string) map[imported]*file {
	reached := make(map[imported]*file)
	visited := map[string]bool{dir: true}
	for queue := []string{dir}; len(queue) > 0; queue = queue[1:] {
		p := t.packages[queue[0]]
		if p == nil {
			continue
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			for _, im := range f.imports {
				key := imported{path: im.path, own: im.own}
				if reached[key] == nil {
					reached[key] = f
				}
				if im.own && !visited[im.path] {
					visited[im.path] = true
					queue = append(queue, im.path)
				}
			}
		}
	}
	return reached
}

// within tells whether p is prefix or below it.
func within(p, prefix string) bool { return p == prefix || strings.HasPrefix(p, prefix+"/") }

func sortViolations(vs []Violation) {
	slices.SortFunc(vs, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
}
