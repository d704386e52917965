package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// entropy makes choices from the bytes that the fuzzer gives, and goes on by itself when there are no more.
type entropy struct {
	bytes []byte
	more  *rand.PCG
}

// Uint64 gives the next choice. The high bits count, because those are what a choice among few is made from.
func (e *entropy) Uint64() uint64 {
	if len(e.bytes) == 0 {
		return e.more.Uint64()
	}
	b := e.bytes[0]
	e.bytes = e.bytes[1:]
	return uint64(b)<<56 | e.more.Uint64()>>8
}

// generator makes requests from schemas.
type generator struct {
	*rand.Rand
	schemas huma.Registry
	// sound generators keep to the document; the others break it now and then.
	sound bool
}

func newGenerator(schemas huma.Registry, seed uint64, choices []byte) *generator {
	return &generator{Rand: rand.New(&entropy{bytes: choices, more: rand.NewPCG(seed, seed)}), schemas: schemas}
}

func (g *generator) pick(from ...string) string { return from[g.IntN(len(from))] }

// breaks tells, once in n times, that it is time to do something wrong.
func (g *generator) breaks(n int) bool { return !g.sound && g.IntN(n) == 0 }

// generated is a request that was made from the document.
type generated struct {
	method, path, body string
	headers            []string
}

func (g *generator) request(op *huma.Operation) generated {
	r := generated{method: op.Method, path: op.Path}
	query := url.Values{}
	for _, p := range op.Parameters {
		value := g.parameter(p)
		switch {
		case p.In == "path":
			r.path = strings.ReplaceAll(r.path, "{"+p.Name+"}", url.PathEscape(value))
		case g.IntN(3) > 0:
		case p.In == "query":
			query.Set(p.Name, value)
		default:
			r.headers = append(r.headers, p.Name, strings.Map(func(c rune) rune {
				if c < ' ' || c > '~' {
					return -1
				}
				return c
			}, value))
		}
	}
	if g.breaks(15) {
		query.Add(g.pick("x", "Wait", "format[]", "", "wait", "limit"), "0")
	}
	if len(query) > 0 {
		r.path += "?" + query.Encode()
	}
	if g.breaks(40) {
		if len(query) == 0 {
			r.path += "?"
		}
		r.path += g.pick("&a=%zz", "&wait=1;limit=2", "?", "&", "&&=&")
	}
	if op.RequestBody != nil {
		g.body(op.RequestBody, &r)
	}
	if g.breaks(20) {
		r.headers = append(r.headers, g.pick("Accept-Encoding", "Accept", "Content-Encoding", "X-HTTP-Method-Override", "Expect"), g.pick("gzip", "zstd;q=0.1", "*", "DELETE", "text/html"))
	}
	return r
}

func (g *generator) body(rb *huma.RequestBody, r *generated) {
	media := slices.Sorted(maps.Keys(rb.Content))[0]
	var b strings.Builder
	documents := 1
	if media == mediaNDJSON {
		documents = 1 + g.IntN(3)
	}
	for range documents {
		value, err := json.Marshal(g.value(rb.Content[media].Schema, 0))
		if err != nil {
			value = []byte("{}")
		}
		b.Write(value)
		b.WriteByte('\n')
	}
	r.body = b.String()
	if g.breaks(6) {
		r.body = g.spoil(r.body)
	}
	if g.breaks(10) {
		media = g.pick("text/plain", "application/json; charset=utf-16", "", "application/xml", "application/json", "multipart/form-data")
	}
	r.headers = append(r.headers, "Content-Type", media)
}

// spoil makes something of a body that is no such document any more.
func (g *generator) spoil(body string) string {
	at := g.IntN(len(body))
	switch g.IntN(9) {
	case 0:
		return body[:at]
	case 1:
		return strings.Repeat("[", 20_000)
	case 2:
		return strings.Repeat(`{"files":`, 5_000)
	case 3:
		return body[:at] + "\xff\xfe" + body[at:]
	case 4:
		return body[:at] + string(rune(g.IntN(256))) + body[at+1:]
	case 5:
		return body + body
	case 6:
		return "\ufeff" + body
	case 7:
		return strings.Replace(body, "{", `{"code":"1","code":"2",`, 1)
	}
	return strings.Replace(body, ":", ":1e999,\"\":", 1)
}

func (g *generator) parameter(p *huma.Param) string {
	switch {
	case len(p.Schema.Enum) > 0 && !g.breaks(5):
		return fmt.Sprint(p.Schema.Enum[g.IntN(len(p.Schema.Enum))])
	case p.In == "path" && !g.breaks(6):
		return g.pick("done", "open", "dead", "batch", "nobody", "hooked")
	case p.Name == "wait":
		if g.sound {
			return g.pick("0", "0.01", "10ms")
		}
		return g.pick("0", "0.01", "10ms", "-1", "1e400", "x", "NaN", "0x1p-9", "-1h", "0h0s")
	case p.Name == "Prefer":
		return g.pick("wait=0", "respond-async", "wait=x", ";;,", "wait=\"0\"", "wait=0.01, wait=9")
	case p.Schema.Type == "integer":
		if g.sound {
			return "5"
		}
		return g.pick("1", "5", "0", "-1", "99999999999999999999", "1.5", "", "+1", "1e3", "٣")
	case p.Example != nil:
		return fmt.Sprint(p.Example)
	}
	return g.text()
}

func (g *generator) text() string {
	if g.sound {
		return g.pick("a", "main.py", "b.py", "x-1")
	}
	return g.pick("", "a", "main.py", "../etc", "x\x00y", "héllo ☃", strings.Repeat("z", 300), "<script>", "\u202e", "2026-11-30T12:00:00Z", "{}", "'; --",
		"a}:input", "%2e%2e", "a\r\nSet-Cookie: x=1", "\U0010ffff", "https://127.0.0.1/", "https://[::ffff:169.254.169.254]/latest")
}

// value makes a value of a schema, now and then one that breaks it.
func (g *generator) value(s *huma.Schema, depth int) any {
	if s.Ref != "" {
		s = g.schemas.SchemaFromRef(s.Ref)
	}
	if g.breaks(25) {
		return []any{nil, true, "text", 1.5, -1, 1e300, []any{}, map[string]any{"x": 1}, []any{[]any{}}}[g.IntN(9)]
	}
	if len(s.Enum) > 0 {
		return s.Enum[g.IntN(len(s.Enum))]
	}
	switch s.Type {
	case "object":
		return g.object(s, depth)
	case "array":
		return []any{g.value(s.Items, depth+1)}
	case "integer", "number":
		if s.Minimum != nil && s.Maximum != nil {
			n := int64(*s.Minimum) + int64(g.Float64()*(*s.Maximum-*s.Minimum))
			if g.breaks(20) {
				n += 1e10
			}
			return n
		}
		return g.IntN(1000)
	case "boolean":
		return g.IntN(2) == 0
	}
	return g.text()
}

func (g *generator) object(s *huma.Schema, depth int) any {
	m := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if g.IntN(4) == 0 && depth < 4 {
			m[name] = g.value(s.Properties[name], depth+1)
		}
	}
	if inner, ok := s.AdditionalProperties.(*huma.Schema); ok {
		m[g.text()] = g.value(inner, depth+1)
	}
	if g.breaks(25) {
		m[g.text()] = 1
	}
	if s.Properties["code"] != nil && (g.sound || g.IntN(2) == 0) {
		delete(m, "files")
		delete(m, "entrypoint")
		m["code"] = "print(1)"
	}
	return m
}
