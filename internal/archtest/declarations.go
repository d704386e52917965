package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// declarations checks what a file declares at the top: exported names are documented, there is
// no init, and no state that two instances in one process would share.
func (c *checker) declarations(f *file) {
	if f.test {
		return
	}
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			c.function(f, d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				c.spec(f, d, spec)
			}
		}
	}
}

func (c *checker) function(f *file, d *ast.FuncDecl) {
	if d.Name.Name == "init" && d.Recv == nil {
		c.report(f, c.line(d), "state", "init runs whoever imports the package; construct things where they are used")
	}
	if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
		c.undocumented(f, d, d.Name.Name)
	}
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

func (c *checker) spec(f *file, d *ast.GenDecl, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc == nil && d.Doc == nil {
			c.undocumented(f, s, s.Name.Name)
		}
		if it, ok := s.Type.(*ast.InterfaceType); ok && s.Name.IsExported() {
			c.methods(f, s.Name.Name, it)
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
				c.undocumented(f, s, name.Name)
			}
		}
		if d.Tok == token.VAR {
			c.variable(f, d, s)
		}
	}
}

func (c *checker) methods(f *file, typeName string, it *ast.InterfaceType) {
	for _, m := range it.Methods.List {
		if len(m.Names) > 0 && m.Names[0].IsExported() && m.Doc == nil && m.Comment == nil {
			c.undocumented(f, m, typeName+"."+m.Names[0].Name)
		}
	}
}

func (c *checker) undocumented(f *file, n ast.Node, name string) {
	c.report(f, c.line(n), "documented", "%s is exported and has no comment: readers come at 3 a.m.", name)
}

// constructors are the calls whose result may stand in a package-level variable,
// because nothing changes it afterwards.
func constructors() []string {
	return []string{
		"errors.New", "fmt.Errorf", "regexp.MustCompile", "redis.NewScript", "strings.NewReplacer", "template.Must",
	}
}

// variable allows sentinels, compiled things, interface checks, embedded files, what the
// linker sets, and unexported tables that nothing in their package writes to.
func (c *checker) variable(f *file, d *ast.GenDecl, s *ast.ValueSpec) {
	if len(s.Names) == 1 && s.Names[0].Name == "_" || embedded(d.Doc) || embedded(s.Doc) {
		return
	}
	if f.path == "internal/buildinfo/buildinfo.go" && s.Names[0].Name == "version" {
		return
	}
	for i, name := range s.Names {
		if i < len(s.Values) && (slices.Contains(constructors(), calledName(s.Values[i])) || isSentinel(s.Values[i])) {
			continue
		}
		if i < len(s.Values) && isTable(s.Values[i]) && !name.IsExported() && !c.written(f.dir, name.Name) {
			continue
		}
		c.report(f, c.line(name), "state", "package-level variable %s: two instances must live in one process; "+
			"make it a constant, a function, or a field", name.Name)
	}
}

// isSentinel tells whether e is an error of another package, under a name of our own.
func isSentinel(e ast.Expr) bool {
	sel, ok := e.(*ast.SelectorExpr)
	return ok && strings.HasPrefix(sel.Sel.Name, "Err")
}

func isTable(e ast.Expr) bool {
	_, ok := e.(*ast.CompositeLit)
	return ok
}

// written tells whether a package assigns to something of that name other than by a definition, or
// takes its address. A local variable of the same name counts too: it should have another.
func (c *checker) written(dir, name string) bool {
	found := false
	is := func(e ast.Expr) {
		for {
			switch x := e.(type) {
			case *ast.IndexExpr:
				e = x.X
			case *ast.SelectorExpr:
				e = x.X
			case *ast.Ident:
				found = found || x.Name == name
				return
			default:
				return
			}
		}
	}
	for _, f := range c.tree.packages[dir].files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, lhs := range n.Lhs {
					if n.Tok != token.DEFINE {
						is(lhs)
					}
				}
			case *ast.IncDecStmt:
				is(n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					is(n.X)
				}
			}
			return !found
		})
	}
	return found
}

func embedded(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
		return len(c.Text) > 10 && c.Text[:10] == "//go:embed"
	})
}

func calledName(e ast.Expr) string {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return ""
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + sel.Sel.Name
}
