// Package viewer holds the page on which people trace a program and read the
// trace: served by the HTTP API, or as one file that stands alone.
//
// The page is written in TypeScript in web/ and built into dist/, which is
// committed, so that Go alone builds the commands. After a change in web/ run
// make viewer; a test compares both with manifest.json.
//
// Everything a program wrote or named is hostile. The page puts it in place as text
// only, and its Content-Security-Policy allows no script but the page's own, no inline style, no
// Trusted Types policy, and no request to anywhere else.
package viewer

import (
	"embed"
	"fmt"
	"html"
	"io/fs"
	"strings"
	"text/template"

	"github.com/execra/tracefleet/internal/job"
)

//go:embed dist
var files embed.FS

// page is what the template of the page is filled with. All texts but Style and
// Script, which are ours, are escaped for HTML.
type page struct {
	Notice, Title         string
	StyleName, ScriptName string
	Policy                string
	Style, Script, Data   string
}

// render fills in the page.
func (p page) render() ([]byte, error) {
	text, err := built("index.html")
	if err != nil {
		return nil, err
	}
	t, err := template.New("page").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse page: %w", err)
	}
	p.Notice = html.EscapeString(job.SandboxNotice)
	p.Title = html.EscapeString(p.Title)
	var out strings.Builder
	if err := t.Execute(&out, p); err != nil {
		return nil, fmt.Errorf("fill in page: %w", err)
	}
	return []byte(out.String()), nil
}

// built gives the text of a built file.
func built(name string) (string, error) {
	data, err := fs.ReadFile(files, "dist/"+name)
	if err != nil {
		return "", fmt.Errorf("read built page: %w", err)
	}
	return string(data), nil
}
