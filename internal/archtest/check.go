package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// Check returns every place in t that breaks one of the rules, sorted.
func Check(t *Tree, rules Rules) []Violation {
	c := &checker{tree: t, rules: rules}
	for _, f := range t.files {
		for _, im := range f.imports {
			c.layer(f, im)
			c.onlyIn(f, im)
			c.testing(f, im)
		}
		c.calls(f)
		c.sizes(f)
		c.declarations(f)
	}
	c.closures()
	c.packages()
	sortViolations(c.found)
	return c.found
}

type checker struct {
	tree  *Tree
	rules Rules
	found []Violation
}

func (c *checker) report(f *file, line int, rule, format string, args ...any) {
	c.found = append(c.found, Violation{File: f.path, Line: line, Rule: rule, Message: fmt.Sprintf(format, args...)})
}

// place finds the layer of a package and its position in it.
func (c *checker) place(dir string) (layer, position int, ok bool) {
	for i, l := range c.rules.Layers {
		if at := slices.Index(l.Packages, dir); at >= 0 {
			return i, at, true
		}
	}
	return 0, 0, false
}

func (c *checker) layer(f *file, im imported) {
	from, fromAt, ok := c.place(f.dir)
	if !ok {
		return // packages() reports it, once
	}
	layer := c.rules.Layers[from]
	if layer.StandardOnly && !f.test && !im.own && !im.standard() {
		c.report(f, im.line, "layers", "%s imports %s, but the %s use the standard library only: %s", f.dir, im.path, layer.Name, layer.Reason)
	}
	if !im.own || im.path == f.dir || f.test && slices.Contains(c.rules.TestHelpers, im.path) {
		return
	}
	to, toAt, ok := c.place(im.path)
	switch {
	case !ok || to < from:
	case to == from && layer.Ordered && toAt < fromAt:
	case to == from && f.test:
		// A test may join siblings: the pool is tried over the real engine.
	case to == from:
		c.report(f, im.line, "layers", "%s imports its sibling %s: %s", f.dir, im.path, layer.Reason)
	default:
		c.report(f, im.line, "layers", "%s imports %s, which stands above it: imports only go down", f.dir, im.path)
	}
}

func (c *checker) onlyIn(f *file, im imported) {
	for _, r := range c.rules.OnlyIn {
		if within(im.path, r.Path) && !slices.Contains(r.Packages, f.dir) && !(f.test && r.Tests) {
			c.report(f, im.line, "only-in", "%s is for %s only: %s", im.path, strings.Join(r.Packages, ", "), r.Reason)
		}
	}
}

// testing keeps what is for tests out of what is shipped.
func (c *checker) testing(f *file, im imported) {
	if f.test || slices.Contains(c.rules.TestHelpers, f.dir) {
		return
	}
	forTests := within(im.path, "testing") || im.path == "go.uber.org/goleak" || within(im.path, "github.com/google/go-cmp") ||
		im.own && slices.Contains(c.rules.TestHelpers, im.path)
	if forTests {
		c.report(f, im.line, "testing", "shipped code imports %s, which is for tests", im.path)
	}
}

func (c *checker) calls(f *file) {
	for _, rule := range c.rules.Calls {
		if !c.concerns(rule, f) {
			continue
		}
		locals := localNames(f, rule.Package)
		if rule.Package != "" && len(locals) == 0 {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains(rule.Names, sel.Sel.Name) {
				return true
			}
			name := "." + sel.Sel.Name
			if rule.Package != "" {
				x, ok := sel.X.(*ast.Ident)
				if !ok || !slices.Contains(locals, x.Name) {
					return true
				}
				name = rule.Package + name
			}
			c.report(f, c.line(sel), "calls", "%s: %s", name, rule.Reason)
			return true
		})
	}
}

func (c *checker) concerns(rule Call, f *file) bool {
	if slices.ContainsFunc(rule.Except, func(e string) bool { return e == f.dir || e == f.path }) {
		return false
	}
	if rule.Unless != "" && slices.ContainsFunc(c.tree.packages[f.dir].files, func(other *file) bool { return len(localNames(other, rule.Unless)) > 0 }) {
		return false
	}
	shipped := !f.test && !slices.Contains(c.rules.TestHelpers, f.dir)
	switch rule.Files {
	case ShippedFiles:
		return shipped
	case LibraryFiles:
		return shipped && !c.tree.packages[f.dir].isMain()
	case TestFiles:
		return !shipped
	default:
		return true
	}
}

// localNames returns the names under which f knows a package.
func localNames(f *file, path string) []string {
	var names []string
	for _, im := range f.imports {
		if im.path == path && !im.own {
			names = append(names, im.local)
		}
	}
	return names
}

func (c *checker) sizes(f *file) {
	if f.lines > c.rules.MaxFileLines {
		c.report(f, 0, "size", "%d lines, at most %d: long files hide what they do", f.lines, c.rules.MaxFileLines)
	}
	if f.test {
		return // a table of cases may be long
	}
	for _, d := range f.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := c.tree.fset.Position(fn.End()).Line - c.line(fn) + 1; n > c.rules.MaxFuncLines {
			c.report(f, c.line(fn), "size", "%s has %d lines, at most %d: a function fits a screen", fn.Name.Name, n, c.rules.MaxFuncLines)
		}
	}
}

func (c *checker) closures() {
	for _, r := range c.rules.Closures {
		for im, f := range c.tree.closure(r.Command) {
			for _, never := range r.Never {
				if within(im.path, never) {
					c.report(f, 0, "closure", "%s reaches %s through this file: %s", r.Command, im.path, r.Reason)
				}
			}
		}
	}
}

// packages checks that each has its place and one package comment.
func (c *checker) packages() {
	for dir, p := range c.tree.packages {
		if _, _, ok := c.place(dir); !ok {
			c.report(p.files[0], 0, "layers", "%s has no place in the table of layers", dir)
		}
		var shipped *file
		comments := 0
		for _, f := range p.files {
			if f.test {
				continue
			}
			shipped = f
			if f.ast.Doc != nil {
				comments++
				c.packageComment(f)
			}
		}
		if shipped != nil && comments != 1 {
			c.report(shipped, 0, "documented", "package %s has %d package comments, want 1: a reader starts there", dir, comments)
		}
	}
}

func (c *checker) packageComment(f *file) {
	want := "Package " + f.ast.Name.Name + " "
	if f.ast.Name.Name == "main" {
		want = "Command "
	}
	if !strings.HasPrefix(f.ast.Doc.Text(), want) {
		c.report(f, c.line(f.ast), "documented", "the package comment does not begin with %q", want)
	}
}

func (c *checker) line(n ast.Node) int { return c.tree.fset.Position(n.Pos()).Line }
