package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/job"
)

func TestOpenAPIGolden(t *testing.T) {
	t.Parallel()
	got, err := Document("test")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "openapi.json")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got); go test -update writes it anew:\n%s", path, diff)
	}
}

// TestJobSchema checks that the schema of a job has exactly the fields of the codec, with their bounds.
func TestJobSchema(t *testing.T) {
	t.Parallel()
	schemas := openAPI("test").Components.Schemas.Map()
	fields := func(of any) []string {
		data, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(maps.Keys(m))
	}
	names := slices.Sorted(maps.Keys(schemas["JobDocument"].Properties))
	want := slices.Sorted(slices.Values(append(fields(job.Job{}), "code", "callback_url")))
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("fields of a job (-codec +schema):\n%s", diff)
	}
	if diff := cmp.Diff(fields(job.Limits{}), slices.Sorted(maps.Keys(schemas["LimitsField"].Properties))); diff != "" {
		t.Errorf("fields of limits (-codec +schema):\n%s", diff)
	}
	if diff := cmp.Diff(fields(job.TraceOptions{}), slices.Sorted(maps.Keys(schemas["TraceField"].Properties))); diff != "" {
		t.Errorf("fields of trace (-codec +schema):\n%s", diff)
	}
	for name, s := range schemas["LimitsField"].Properties {
		for _, try := range []struct {
			value int64
			ok    bool
		}{{int64(*s.Minimum), true}, {int64(*s.Minimum) - 1, false}, {int64(*s.Maximum), true}, {int64(*s.Maximum) + 1, false}} {
			_, err := job.Decode(strings.NewReader(fmt.Sprintf(`{"code":"1","limits":{%q:%d}}`, name, try.value)), job.MaxLimits())
			if (err == nil) != try.ok {
				t.Errorf("%s = %d: the codec says %v, the schema %t", name, try.value, err, try.ok)
			}
		}
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	page := f.request("GET", "/docs", "")
	if page.status != 200 || strings.Contains(page.body, "<script") || strings.Contains(page.body, "src=") || strings.Contains(page.body, "https://") {
		t.Errorf("docs: got %d, or a script or something of another site", page.status)
	}
	for _, o := range operations() {
		if !strings.Contains(page.body, `id="`+o.id+`"`) {
			t.Errorf("docs lack %s", o.id)
		}
	}
	served := f.get("/openapi.json")
	if want, err := Document("dev"); err != nil || served.body != string(want) || served.status != 200 {
		t.Errorf("openapi.json: got %d, %d bytes, %v", served.status, len(served.body), err)
	}
}

// described checks answers against the document.
type described struct {
	doc    *huma.OpenAPI
	checks int
}

// check tells what is wrong with an answer to an operation.
func (d *described) check(op *huma.Operation, got answer) error {
	r := op.Responses[strconv.Itoa(got.status)]
	if r == nil {
		return fmt.Errorf("status %d is not in the document", got.status)
	}
	media, _, _ := strings.Cut(got.header.Get("Content-Type"), ";")
	if len(r.Content) == 0 {
		if got.body != "" {
			return fmt.Errorf("status %d has a body", got.status)
		}
		return nil
	}
	content := r.Content[media]
	if content == nil {
		return fmt.Errorf("status %d as %q is not in the document", got.status, media)
	}
	bodies := []string{got.body}
	switch media {
	case "text/event-stream":
		return nil
	case mediaNDJSON:
		bodies = strings.Split(strings.TrimSpace(got.body), "\n")
	}
	for _, body := range bodies {
		var value any
		if err := json.Unmarshal([]byte(body), &value); err != nil {
			return fmt.Errorf("status %d: %w", got.status, err)
		}
		d.checks++
		result := &huma.ValidateResult{}
		huma.Validate(d.doc.Components.Schemas, content.Schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, value, result)
		if len(result.Errors) > 0 {
			return fmt.Errorf("status %d: %v", got.status, result.Errors)
		}
	}
	return nil
}

// TestFuzzFromDocument sends requests that are made from the OpenAPI document, some as it says and some
// not, and checks that every answer is one that the document has, and never the server's fault.
func TestFuzzFromDocument(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	done := f.submit(`{"code":"1/0","id":"done"}`)
	f.finish(done)
	f.submit(`{"code":"1","id":"open"}`)
	f.submit(`{"code":"1","id":"dead"}`)
	f.bury("dead")
	f.post("/batches?name=batch", `{"code":"1"}`, "Content-Type", mediaNDJSON)
	d := &described{doc: openAPI("test")}
	const seed = 7
	g := &generator{Rand: rand.New(rand.NewPCG(seed, seed)), schemas: d.doc.Components.Schemas}
	statuses := map[int]int{}
	for round := range 60 {
		for _, o := range operations() {
			op := operationIn(d.doc, o)
			method, path, body, headers := g.request(op)
			if o.id == "followTrace" && strings.Contains(path, "/open/") || strings.Contains(path, "/dead/events") {
				continue // a stream that stays open
			}
			got := f.request(method, Prefix+path, body, headers...)
			statuses[got.status]++
			if err := d.check(op, got); err != nil || got.status >= 500 {
				t.Errorf("round %d: %s %s %v %.300q: %v", round, method, path, headers, body, err)
			}
		}
	}
	t.Logf("answers by status: %v; %d bodies validated", statuses, d.checks)
	for _, want := range []int{200, 202, 400, 404, 415, 422} {
		if statuses[want] == 0 {
			t.Errorf("no request was answered %d: the generator misses something", want)
		}
	}
}

// generator makes requests from schemas.
type generator struct {
	*rand.Rand
	schemas huma.Registry
}

func (g *generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g *generator) request(op *huma.Operation) (method, path, body string, headers []string) {
	path = op.Path
	query := url.Values{}
	for _, p := range op.Parameters {
		value := g.parameter(p)
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(value))
		case g.IntN(3) > 0:
		case p.In == "query":
			query.Set(p.Name, value)
		default:
			headers = append(headers, p.Name, strings.Map(func(r rune) rune {
				if r < ' ' || r > '~' {
					return -1
				}
				return r
			}, value))
		}
	}
	if g.IntN(15) == 0 {
		query.Set(g.pick("x", "Wait", "format[]", ""), "1")
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	if op.RequestBody != nil {
		body, headers = g.body(op.RequestBody, headers)
	}
	return op.Method, path, body, headers
}

func (g *generator) body(rb *huma.RequestBody, headers []string) (string, []string) {
	media := ""
	for name := range rb.Content {
		media = name
	}
	value, err := json.Marshal(g.value(rb.Content[media].Schema, 0))
	if err != nil {
		return "", headers
	}
	body := string(value)
	switch g.IntN(12) {
	case 0:
		body = body[:len(body)/2]
	case 1:
		body = strings.Repeat("[", 2000)
	case 2:
		media = g.pick("text/plain", "application/json; charset=utf-16", "", "application/xml")
	}
	return body, append(headers, "Content-Type", media)
}

func (g *generator) parameter(p *huma.Param) string {
	switch {
	case len(p.Schema.Enum) > 0 && g.IntN(5) > 0:
		return fmt.Sprint(p.Schema.Enum[g.IntN(len(p.Schema.Enum))])
	case p.In == "path" && g.IntN(6) > 0:
		return g.pick("done", "open", "dead", "batch", "nobody")
	case p.Name == "wait":
		return g.pick("0", "0.01", "10ms", "-1", "1e400", "x")
	case p.Name == "Prefer":
		return g.pick("wait=0", "respond-async", "wait=x", ";;,")
	case p.Schema.Type == "integer":
		return g.pick("1", "5", "0", "-1", "99999999999999999999", "1.5", "")
	}
	return g.text()
}

func (g *generator) text() string {
	return g.pick("", "a", "main.py", "../etc", "x\x00y", "héllo ☃", strings.Repeat("z", 300), "<script>", "\u202e", "2026-11-30T12:00:00Z", "{}", "'; --")
}

// value makes a value of a schema, now and then one that breaks it.
func (g *generator) value(s *huma.Schema, depth int) any {
	if s.Ref != "" {
		s = g.schemas.SchemaFromRef(s.Ref)
	}
	if g.IntN(25) == 0 {
		return []any{nil, true, "text", 1.5, -1, []any{}, map[string]any{"x": 1}}[g.IntN(7)]
	}
	if len(s.Enum) > 0 {
		return s.Enum[g.IntN(len(s.Enum))]
	}
	switch s.Type {
	case "object":
		m := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if g.IntN(4) == 0 && depth < 4 {
				m[name] = g.value(s.Properties[name], depth+1)
			}
		}
		if inner, ok := s.AdditionalProperties.(*huma.Schema); ok {
			m[g.text()] = g.value(inner, depth+1)
		}
		if g.IntN(25) == 0 {
			m[g.text()] = 1
		}
		if depth == 0 && s.Properties["code"] != nil && g.IntN(2) == 0 {
			delete(m, "files")
			m["code"] = "print(1)"
		}
		return m
	case "array":
		return []any{g.value(s.Items, depth+1)}
	case "integer", "number":
		if s.Minimum != nil && s.Maximum != nil {
			return int64(*s.Minimum) + int64(g.Float64()*(*s.Maximum-*s.Minimum)) + int64(g.IntN(20)/19)*1e10
		}
		return g.IntN(1000)
	case "boolean":
		return g.IntN(2) == 0
	}
	return g.text()
}

// TestAnswersMatchTheDocument checks the ordinary answers of every operation against its schema.
func TestAnswersMatchTheDocument(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	f.finish(f.submit(`{"code":"1/0","id":"done"}`))
	f.submit(`{"code":"1","id":"dead"}`)
	f.bury("dead")
	f.post("/batches?name=batch", `{"code":"1"}`, "Content-Type", mediaNDJSON)
	d := &described{doc: openAPI("test")}
	ids := map[string]string{"getBatch": "batch", "getDeadLetter": "dead"}
	bodies := map[string]string{"submitTrace": `{"code":"1"}`, "submitBatch": "{\"code\":\"1\"}\nno", "requeueDeadLetters": `{"filter":{},"dry_run":true}`}
	for _, o := range operations() {
		id := ids[o.id]
		if id == "" {
			id = "done"
		}
		var headers []string
		if o.bodyType != "" {
			headers = []string{"Content-Type", o.bodyType}
		}
		got := f.request(o.method, Prefix+strings.ReplaceAll(o.path, "{id}", id), bodies[o.id], headers...)
		wantOK := o.tag != "Webhooks"
		if err := d.check(operationIn(d.doc, o), got); err != nil || wantOK && got.status >= 300 {
			t.Errorf("%s: got %d: %v", o.id, got.status, err)
		}
	}
	if d.checks == 0 {
		t.Error("nothing was checked")
	}
}
