package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/execra/tracefleet/internal/redistest"
	"github.com/execra/tracefleet/internal/webhook"
)

// documented is a server with something of everything, which is asked what its document says can be asked.
type documented struct {
	*described
	api    *fixture
	tokens map[string]string
	// statuses counts the answers by operation and status.
	statuses map[string]map[int]int
}

func newDocumented(tb testing.TB) *documented {
	tb.Helper()
	server := redistest.Start(tb, redistest.Options{})
	guard, names := tokens(tb, server.Client)
	f := start(tb, server, func(c *Config) {
		c.Guard, c.Hooks, c.Targets = guard, webhook.NewStore(server.Client()), webhook.Targets{Hosts: []string{"*"}, Private: []string{"127.0.0.1"}}
	})
	f.token = names["operate"]
	f.finish(f.submit(`{"code":"1/0","id":"done"}`))
	f.submit(`{"code":"1","id":"open"}`)
	f.submit(`{"code":"1","id":"dead"}`)
	f.submit(`{"code":"1","id":"hooked","callback_url":"https://hooks.example/"}`)
	f.submit(`{"code":"1","id":"of-ada","tenant":"ada"}`)
	f.bury("dead")
	f.post("/batches?name=batch", `{"code":"1"}`, "Content-Type", mediaNDJSON)
	names["wrong"], names["none"] = "tf_wrong", ""
	return &documented{described: &described{doc: openAPI("test")}, api: f, tokens: names, statuses: map[string]map[int]int{}}
}

// ask sends a generated request, and tells what is wrong with the answer.
func (d *documented) ask(tb testing.TB, o *operation, token string, r generated) answer {
	tb.Helper()
	op := operationIn(d.doc, *o)
	q := httptest.NewRequestWithContext(tb.Context(), r.method, "http://fleet.example"+Prefix+"/", strings.NewReader(r.body))
	var err error
	if q.URL, err = q.URL.Parse(Prefix + r.path); err != nil {
		return answer{} // no client could send it
	}
	for i := 0; i+1 < len(r.headers); i += 2 {
		q.Header.Set(r.headers[i], r.headers[i+1])
	}
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	d.api.api.Handler().ServeHTTP(w, q)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		tb.Fatal(err)
	}
	got := answer{status: w.Code, header: w.Result().Header, body: string(body)}
	if encoding := got.header.Get("Content-Encoding"); encoding != "" {
		got.body = unpack(tb, encoding, got.body)
	}
	if d.statuses[o.id] == nil {
		d.statuses[o.id] = map[int]int{}
	}
	d.statuses[o.id][got.status]++
	err = d.check(op, got)
	if err != nil || got.status >= 500 && got.status != http.StatusServiceUnavailable {
		tb.Errorf("%s %s %.200q %.300q: got %.300q: %v", r.method, r.path, r.headers, r.body, got.body, err)
	}
	return got
}

// staysOpen tells of requests whose answer is a stream without an end.
func staysOpen(r generated) bool {
	return strings.Contains(r.path, "/events") && !strings.Contains(r.path, "/done/") && !strings.Contains(r.path, "/nobody/")
}

// TestFuzzFromDocument sends requests that are made from the OpenAPI document, some as it says and some not, with
// every kind of token, and checks that every answer is one that the document has, and never the server's fault.
func TestFuzzFromDocument(t *testing.T) {
	t.Parallel()
	d := newDocumented(t)
	const seed = 7
	g := newGenerator(d.doc.Components.Schemas, seed, nil)
	all := operations()
	for range 400 {
		for i := range all {
			if r := g.request(operationIn(d.doc, all[i])); !staysOpen(r) {
				d.ask(t, &all[i], d.tokens[g.pick("operate", "operate", "operate", "operate", "submit", "read", "ada", "bob", "wrong", "none")], r)
			}
		}
	}
	t.Logf("%d bodies validated; answers by operation and status: %v", d.checks, d.statuses)
	for id, wanted := range map[string][]int{
		"submitTrace": {202, 400, 401, 403, 415, 422, 429}, "getTrace": {200, 401, 404, 422}, "getInput": {200, 404}, "followTrace": {200, 404}, "cancelTrace": {200, 403, 404},
		"submitBatch": {200, 403, 415, 422}, "getBatch": {200, 404, 422}, "getWebhook": {200, 404}, "replayWebhook": {202, 403, 404},
		"listDeadLetters": {200, 403, 422}, "getDeadLetter": {403, 404}, "requeueDeadLetters": {200, 400, 403, 415, 422}, "getLimits": {200, 401, 422},
	} {
		for _, status := range wanted {
			if d.statuses[id][status] == 0 {
				t.Errorf("%s was never answered %d: the generator misses something", id, status)
			}
		}
	}
}

// TestSoundRequestsAreTaken sends what the document allows: it must not promise more than is taken.
func TestSoundRequestsAreTaken(t *testing.T) {
	t.Parallel()
	d := newDocumented(t)
	const seed = 11
	g := newGenerator(d.doc.Components.Schemas, seed, nil)
	g.sound = true
	all := operations()
	for range 60 {
		for i := range all {
			r := g.request(operationIn(d.doc, all[i]))
			if staysOpen(r) {
				continue
			}
			// What is valid may still meet what is there: ids that are taken, things that are not there.
			got := d.ask(t, &all[i], d.tokens["operate"], r)
			var p Problem
			if got.status >= 400 {
				got.json(t, &p)
			}
			if got.status >= 400 && got.status != 404 && got.status != 409 && p.Type != ProblemType+"id-reused" && !soundRefusal(p) {
				t.Errorf("%s %s %v %s: got %d %s", r.method, r.path, r.headers, r.body, got.status, got.body)
			}
		}
	}
	if d.statuses["submitTrace"][202] == 0 || d.statuses["submitBatch"][200] == 0 {
		t.Errorf("got %v", d.statuses)
	}
}

// soundRefusal tells of refusals for what a schema cannot say.
func soundRefusal(p Problem) bool {
	for _, f := range p.Errors {
		switch f.Location {
		case "body.callback_url", "header.Idempotency-Key", "query.name", "body.ids":
		default:
			if !strings.HasPrefix(f.Location, "body.trace.include") {
				return false
			}
		}
	}
	return len(p.Errors) > 0
}

// FuzzRequests lets the fuzzer choose the requests that are made from the document.
func FuzzRequests(f *testing.F) {
	d := newDocumented(f)
	all := operations()
	for i := range all {
		f.Add(byte(i), uint64(i), []byte{})
	}
	f.Fuzz(func(t *testing.T, which byte, seed uint64, choices []byte) {
		o := &all[int(which)%len(all)]
		g := newGenerator(d.doc.Components.Schemas, seed, choices)
		if r := g.request(operationIn(d.doc, *o)); !staysOpen(r) {
			d.ask(t, o, d.tokens["operate"], r)
		}
	})
}
