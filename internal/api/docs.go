package api

import (
	"bytes"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/execra/tracefleet/internal/job"
)

// docsTemplate is the page that shows the API. It is plain: no script, nothing from elsewhere.
var docsTemplate = template.Must(template.New("docs").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tracefleet API</title><style>{{.Style}}</style></head><body><main>
<h1>Tracefleet API</h1>
<p>{{.About}}</p>
<p>Version {{.Version}} · <a href="{{.Prefix}}/openapi.json">OpenAPI 3.1 document</a> · <a href="/login">sign in or out</a></p>
<pre>curl -H "Authorization: Bearer $TRACEFLEET_TOKEN" -H "Content-Type: application/json" \
     -d '{"code":"print(6*7)"}' "http://127.0.0.1:8080{{.Prefix}}/traces?wait=25s"</pre>
<p class="hint">{{.Notice}}</p>
<nav><h2>Operations</h2>{{range .Operations}}<div><a href="#{{.ID}}"><span class="verb">{{.Method}}</span><code>{{.Path}}</code></a> {{.Summary}}</div>{{end}}</nav>
{{range .Operations}}<section id="{{.ID}}"><h2><span class="verb">{{.Method}}</span> <code>{{.Path}}</code></h2>
<p>{{.Doc}}</p><p class="dim">Role: {{.Role}}</p>
{{if .Params}}<h3>Parameters</h3><table><tr><th>Name</th><th>In</th><th>Meaning</th></tr>
{{range .Params}}<tr><td><code>{{.Name}}</code></td><td>{{.In}}</td><td>{{.Doc}}{{range .Values}} <code>{{.}}</code>{{end}}</td></tr>{{end}}</table>{{end}}
{{with .Body}}<h3>Body</h3><p><code>{{.Media}}</code>, <a href="#schema-{{.Schema}}">{{.Schema}}</a></p>{{end}}
<h3>Answers</h3><table><tr><th>Status</th><th>Meaning</th><th>Body</th></tr>
{{range .Answers}}<tr><td>{{.Status}}</td><td>{{.Doc}}</td><td>{{if .Schema}}<a href="#schema-{{.Schema}}">{{.Schema}}</a>{{else}}{{.Media}}{{end}}</td></tr>{{end}}</table></section>{{end}}
<h2>Documents</h2>
{{range .Schemas}}<section id="schema-{{.Name}}"><h3>{{.Name}}</h3><table>
{{range .Fields}}<tr><td><code>{{.Name}}</code></td><td>{{if .Ref}}<a href="#schema-{{.Ref}}">{{.Ref}}</a>{{.Suffix}}{{else}}{{.Type}}{{end}}</td><td>{{.Doc}}{{range .Values}} <code>{{.}}</code>{{end}}{{with .Range}} {{.}}{{end}}</td></tr>{{end}}</table></section>{{end}}
</main></body></html>
`))

type docsView struct {
	Style                          template.CSS
	About, Version, Prefix, Notice string
	Operations                     []docsOperation
	Schemas                        []docsSchema
}

type docsOperation struct {
	ID, Method, Path, Summary, Doc, Role string
	Params                               []docsField
	Body                                 *docsAnswer
	Answers                              []docsAnswer
}

type docsAnswer struct{ Status, Doc, Schema, Media string }

type docsSchema struct {
	Name   string
	Fields []docsField
}

type docsField struct {
	Name, In, Doc, Type, Ref, Suffix, Range string
	Values                                  []string
}

// renderDocs makes the page from the OpenAPI document.
func renderDocs(version string) ([]byte, error) {
	doc := openAPI(version)
	view := docsView{Style: template.CSS(styleSheet), About: about, Version: version, Prefix: Prefix, Notice: job.SandboxNotice} //nolint:gosec // our own file
	for _, o := range operations() {
		view.Operations = append(view.Operations, docsFor(o, operationIn(doc, o)))
	}
	schemas := doc.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		s := docsSchema{Name: name}
		for _, field := range slices.Sorted(maps.Keys(schemas[name].Properties)) {
			s.Fields = append(s.Fields, fieldOf(field, schemas[name].Properties[field]))
		}
		view.Schemas = append(view.Schemas, s)
	}
	var b bytes.Buffer
	if err := docsTemplate.Execute(&b, view); err != nil {
		return nil, fmt.Errorf("page of the API: %w", err)
	}
	return b.Bytes(), nil
}

func operationIn(doc *huma.OpenAPI, o operation) *huma.Operation {
	item := doc.Paths[o.path]
	switch o.method {
	case http.MethodPost:
		return item.Post
	case http.MethodDelete:
		return item.Delete
	}
	return item.Get
}

func docsFor(o operation, op *huma.Operation) docsOperation {
	d := docsOperation{ID: o.id, Method: o.method, Path: Prefix + o.path, Summary: o.summary, Doc: o.doc, Role: o.role.String()}
	for _, p := range o.params {
		d.Params = append(d.Params, docsField{Name: p.name, In: p.in, Doc: p.doc, Values: p.enum})
	}
	if op.RequestBody != nil {
		d.Body = &docsAnswer{Media: o.bodyType, Schema: schemaName(op.RequestBody.Content[o.bodyType].Schema)}
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		a := docsAnswer{Status: status, Doc: op.Responses[status].Description}
		for media, content := range op.Responses[status].Content {
			a.Media, a.Schema = media, schemaName(content.Schema)
			if len(content.Schema.AnyOf) > 0 {
				a.Schema = schemaName(content.Schema.AnyOf[0])
			}
		}
		d.Answers = append(d.Answers, a)
	}
	return d
}

func schemaName(s *huma.Schema) string {
	const prefix = "#/components/schemas/"
	if len(s.Ref) > len(prefix) {
		return s.Ref[len(prefix):]
	}
	return ""
}

func fieldOf(name string, s *huma.Schema) docsField {
	f := docsField{Name: name, Doc: s.Description, Type: s.Type, Ref: schemaName(s)}
	for _, one := range s.AnyOf {
		if ref := schemaName(one); ref != "" {
			f.Ref, f.Suffix = ref, " or null"
		}
	}
	if s.Items != nil {
		f.Type, f.Ref, f.Suffix = "list of "+s.Items.Type, schemaName(s.Items), " (list)"
	}
	if s.Nullable {
		f.Type += " or null"
	}
	for _, value := range s.Enum {
		f.Values = append(f.Values, fmt.Sprint(value))
	}
	if s.Minimum != nil && s.Maximum != nil {
		number := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
		f.Range = fmt.Sprintf("%s to %s", number(*s.Minimum), number(*s.Maximum))
		if s.Default != nil {
			f.Range += fmt.Sprintf(" (%v)", s.Default)
		}
	}
	return f
}

// serveDocs answers with the page of the API.
func (a *API) serveDocs(w http.ResponseWriter, r *http.Request) {
	facts(r).operation = "docs"
	w.Header().Set("Content-Security-Policy", pagePolicy())
	a.docsPage.send(w, r, http.StatusOK)
}
