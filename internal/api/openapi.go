package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/trace"
)

// about is the description at the head of the document.
const about = "Runs Python programs in sandboxes and tells what they did, line by line. Submit a program, wait for its result. " +
	"A program that fails is a result like any other; errors are problem documents (RFC 9457)."

// Document returns the OpenAPI 3.1 document, made from the table of operations and the types of the answers.
func Document(version string) ([]byte, error) {
	data, err := json.MarshalIndent(openAPI(version), "", " ")
	if err != nil {
		return nil, fmt.Errorf("OpenAPI document: %w", err)
	}
	return append(data, '\n'), nil
}

func openAPI(version string) *huma.OpenAPI {
	registry := newRegistry()
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info:    &huma.Info{Title: "Tracefleet", Version: version, Description: about},
		Servers: []*huma.Server{{URL: Prefix}},
		Components: &huma.Components{
			Schemas: registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"token":   {Type: "http", Scheme: "bearer", Description: "A token of enqueuer token."},
				"session": {Type: "apiKey", In: "cookie", Name: "tracefleet_session", Description: "What /login sets, for the pages."},
			},
		},
		Security: []map[string][]string{{"token": {}}, {"session": {}}},
	}
	for _, o := range operations() {
		doc.AddOperation(o.document(registry))
	}
	setBounds(registry)
	setNullable(registry)
	return doc
}

// newRegistry knows the types whose JSON is not what their fields look like.
func newRegistry() huma.Registry {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	object := reflect.TypeFor[map[string]any]()
	registry.RegisterTypeAlias(reflect.TypeFor[trace.Vars](), object)
	registry.RegisterTypeAlias(reflect.TypeFor[trace.Heap](), object)
	return registry
}

// document describes one operation.
func (o *operation) document(registry huma.Registry) *huma.Operation {
	op := &huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Tags: []string{o.tag}, Summary: o.summary,
		Description: o.doc + " Needs the role " + o.role.String() + ".", Responses: map[string]*huma.Response{},
	}
	for _, p := range o.params {
		op.Parameters = append(op.Parameters, p.document())
	}
	if o.body != nil {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{o.bodyType: {Schema: schemaOf(registry, o.body)}}}
	}
	for _, a := range o.answers {
		op.Responses[strconv.Itoa(a.status)] = a.document(registry)
	}
	problems := map[int]string{
		http.StatusUnauthorized: "No token, or one that is not known.", http.StatusForbidden: "The token's role does not allow it.",
		http.StatusUnprocessableEntity: "A field or parameter is wrong; errors names it.",
		http.StatusTooManyRequests:     "Too many requests, or the queue is full; Retry-After says when to come again.",
		http.StatusInternalServerError: "What is stored is damaged, or the server has a fault; request_id names it in the server's log.",
		http.StatusServiceUnavailable:  "Redis is away, or too much is under way; Retry-After says when to come again.",
	}
	if len(o.params) > 0 && o.params[0].in == "path" {
		problems[http.StatusNotFound] = "There is no such thing, or it belongs to another tenant."
	}
	if o.body != nil {
		problems[http.StatusBadRequest] = "The body cannot be read."
		problems[http.StatusRequestEntityTooLarge] = "The body is too large."
		problems[http.StatusUnsupportedMediaType] = "The body has another media type."
	}
	for status, text := range problems {
		op.Responses[strconv.Itoa(status)] = (&reply{status: status, doc: text, body: Problem{}, headers: problemHeaders(status)}).document(registry)
	}
	return op
}

// problemHeaders are the headers that come with a problem.
func problemHeaders(status int) map[string]string {
	switch status {
	case http.StatusUnauthorized:
		return map[string]string{"WWW-Authenticate": "Bearer."}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusConflict:
		return map[string]string{"Retry-After": "Seconds until it is worth asking again."}
	}
	return nil
}

func (p *param) document() *huma.Param {
	schema := &huma.Schema{Type: p.kind, Pattern: p.pattern}
	for _, value := range p.enum {
		schema.Enum = append(schema.Enum, value)
	}
	if p.max > 0 && p.kind == "string" {
		schema.MaxLength = &p.max
	}
	if p.max > 0 && p.kind == "integer" {
		low, high := 1.0, float64(p.max)
		schema.Minimum, schema.Maximum = &low, &high
	}
	d := &huma.Param{Name: p.name, In: p.in, Description: p.doc, Required: p.required, Schema: schema}
	if p.example != "" {
		d.Example = p.example
	}
	return d
}

func (a *reply) document(registry huma.Registry) *huma.Response {
	r := &huma.Response{Description: a.doc, Headers: map[string]*huma.Param{}}
	for _, headers := range []map[string]string{a.headers, {
		"X-Request-Id": "The id of the request in the server's log.", "traceparent": "The trace context of the request, when it had one.",
	}} {
		for name, text := range headers {
			r.Headers[name] = &huma.Param{Description: text, Schema: &huma.Schema{Type: "string"}}
		}
	}
	switch _, isProblem := a.body.(Problem); {
	case isProblem:
		r.Content = map[string]*huma.MediaType{"application/problem+json": {Schema: schemaOf(registry, a.body)}}
	case a.mediaType != "" && a.body == nil:
		r.Content = map[string]*huma.MediaType{a.mediaType: {Schema: &huma.Schema{Type: "string"}}}
	case a.mediaType != "":
		r.Content = map[string]*huma.MediaType{a.mediaType: {Schema: schemaOf(registry, a.body)}}
	case len(a.others) > 0:
		forms := []*huma.Schema{schemaOf(registry, a.body), execraSchema()}
		for _, other := range a.others {
			forms = append(forms, schemaOf(registry, other))
		}
		r.Content = map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{AnyOf: forms}}}
	case a.body != nil:
		r.Content = map[string]*huma.MediaType{"application/json": {Schema: schemaOf(registry, a.body)}}
	}
	return r
}

// execraSchema says what the form of Execra's tracer always has; docs/execra.md has the whole of it.
func execraSchema() *huma.Schema {
	return &huma.Schema{
		Type: "object", Required: []string{"trace_log", "summary", "stdout", "stderr", "returncode"}, AdditionalProperties: true,
		Description: "The result in the form of Execra's tracer.",
	}
}

func schemaOf(registry huma.Registry, value any) *huma.Schema {
	return registry.Schema(reflect.TypeOf(value), true, "")
}

// setBounds puts the bounds of package job into the schema of a job, so that they cannot differ.
func setBounds(registry huma.Registry) {
	bounds := func(of job.Limits) map[string]float64 {
		data, err := json.Marshal(of)
		if err != nil {
			return nil // integers only: it cannot fail
		}
		values := map[string]float64{}
		_ = json.Unmarshal(data, &values) // what Marshal wrote
		return values
	}
	low, high, usual := bounds(job.MinLimits()), bounds(job.MaxLimits()), bounds(job.DefaultLimits())
	for name, schema := range registry.Map()["LimitsField"].Properties {
		least, most := low[name], high[name]
		schema.Minimum, schema.Maximum, schema.Default = &least, &most, int64(usual[name])
	}
	properties := registry.Map()["JobDocument"].Properties
	least, most := float64(job.MinRetentionS), float64(job.MaxRetentionS)
	properties["retention_s"].Minimum, properties["retention_s"].Maximum = &least, &most
	properties["retention_s"].Default = int64(job.DefaultRetentionS)
	for name, length := range map[string]int{
		"id": job.MaxIDBytes, "tenant": job.MaxTenantBytes, "name": job.MaxNameChars, "stdin": job.MaxStdinBytes,
		"code": job.MaxSourceBytes, "entrypoint": job.MaxPathBytes,
	} {
		properties[name].MaxLength = &length
	}
}

// setNullable says which members that are documents of their own may be null, which a Go type does not tell.
func setNullable(registry huma.Registry) {
	for schema, names := range map[string][]string{
		"Result": {"exception", "summary", "trace"}, "Exception": {"cause", "context"},
	} {
		for _, name := range names {
			p := registry.Map()[schema].Properties[name]
			registry.Map()[schema].Properties[name] = &huma.Schema{AnyOf: []*huma.Schema{p, {Type: "null"}}}
		}
	}
}

// serveDocument answers with the OpenAPI document. It holds no secret and needs no token.
func (a *API) serveDocument(w http.ResponseWriter, r *http.Request) {
	facts(r).operation = "openapi"
	w.Header().Set("Cache-Control", "no-cache")
	a.document.send(w, r, http.StatusOK)
}
