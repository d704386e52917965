package api

import (
	"strings"
	"testing"

	"github.com/execra/tracefleet/internal/redistest"
	"github.com/execra/tracefleet/internal/webhook"
)

// TestBatchShowsNoForeignJob puts ids of another tenant's jobs, and of jobs that are yet to come, into a batch: the
// batch must not tell how these fare.
func TestBatchShowsNoForeignJob(t *testing.T) {
	t.Parallel()
	f, names := guarded(t, nil)
	f.token = names["ada"]
	f.submit(`{"code":"1","id":"of-ada"}`)
	f.token = names["bob"]
	lines := f.post("/batches?name=b", "{\"code\":\"2\",\"id\":\"of-ada\"}\n{\"code\":\"2\",\"id\":\"of-bob\"}", "Content-Type", mediaNDJSON)
	if !strings.Contains(lines.body, `"status":422`) || !strings.Contains(lines.body, `"status":202`) {
		t.Fatalf("got %d %s", lines.status, lines.body)
	}
	read := func() BatchDocument {
		var doc BatchDocument
		f.get("/batches/b").json(t, &doc)
		return doc
	}
	for _, state := range []string{"queued", "exception"} {
		doc := read()
		if len(doc.Items) != 2 || doc.Items[0].Status != "missing" || doc.Items[1].Status != "queued" || doc.Counts[state] > 1 || doc.Open != 1 {
			t.Errorf("while it is %s: got %+v", state, doc)
		}
		if state == "queued" {
			f.finish("of-ada")
		}
	}
	f.token = names["read"]
	if doc := read(); doc.Items[0].Status != "exception" {
		t.Errorf("for all tenants: got %+v", doc)
	}
}

// TestBatchNameHoldsItsJobs checks that a batch that was taken in can be sent again, but not with other jobs.
func TestBatchNameHoldsItsJobs(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	const body = "{\"code\":\"1\",\"id\":\"a\"}\nno\n{\"code\":\"2\",\"id\":\"b\"}"
	for _, tt := range []struct {
		body string
		want int
	}{{body, 200}, {body, 200}, {`{"code":"1","id":"a"}`, 422}, {body + "\n{\"code\":\"3\"}", 422}, {`{"code":"9"}`, 422}} {
		if got := f.post("/batches?name=b", tt.body, "Content-Type", mediaNDJSON); got.status != tt.want {
			t.Errorf("%q: got %d %s, want %d", tt.body, got.status, got.body, tt.want)
		}
	}
	var doc BatchDocument
	f.get("/batches/b").json(t, &doc)
	if doc.Total != 2 || doc.Items[0].ID != "a" || doc.Items[1].ID != "b" {
		t.Errorf("got %+v", doc)
	}
}

// TestNoKeysThroughIDs sends what would lead to other keys of the store, were it looked up.
func TestNoKeysThroughIDs(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	f.submit(`{"code":"1","id":"a"}`)
	f.post("/batches?name=b", `{"code":"1"}`, "Content-Type", mediaNDJSON)
	for _, id := range []string{"a}:input", "b}:items", "*", "%2e%2e%2fa", "a%00", "a%0a", "{a}", "%61", strings.Repeat("x", 500)} {
		for _, path := range []string{"/traces/%s", "/traces/%s/input", "/traces/%s/events", "/traces/%s/webhook", "/batches/%s", "/dead-letters/%s"} {
			if got := f.get(strings.ReplaceAll(path, "%s", id)); got.status != 404 || got.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s of %q: got %d %s, want 404", path, id, got.status, got.body)
			}
		}
	}
	for _, ids := range []string{`["a}:input"]`, `[""]`, `["a\u0000"]`, `["../a"]`} {
		if got := f.post("/dead-letters/requeue", `{"ids":`+ids+`}`); got.status != 422 || got.problem(t).Errors[0].Location != "body.ids" {
			t.Errorf("requeue %s: got %d %s, want 422", ids, got.status, got.body)
		}
	}
}

// TestCallbackTellsNothingOfOthers has a tenant send callbacks under the id of another tenant's job, and while such a submission is
// under way.
func TestCallbackTellsNothingOfOthers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	guard, names := tokens(t, server.Client)
	store := webhook.NewStore(server.Client())
	f := start(t, server, func(c *Config) {
		c.Guard, c.Hooks, c.Targets = guard, store, webhook.Targets{Hosts: []string{"*"}}
	})
	with := func(code, id, url string) string {
		return `{"code":"` + code + `","id":"` + id + `","callback_url":"` + url + `"}`
	}
	f.token = names["ada"]
	f.submit(with("1", "called", "https://ada.example/secret"))
	f.submit(`{"code":"1","id":"quiet"}`)
	f.token = names["bob"]
	for _, id := range []string{"called", "quiet"} {
		for _, url := range []string{"https://bob.example/", "https://ada.example/secret"} {
			got := f.post("/traces", with("2", id, url))
			if p := got.problem(t); got.status != 422 || p.Type != ProblemType+"id-reused" || p.Errors[0].Location != "body.id" {
				t.Errorf("%s with %s: got %d %s, want the same refusal for all", id, url, got.status, got.body)
			}
		}
	}
	// What such a submission leaves for a moment neither shows nor stands in the way.
	if _, made, err := store.Register(t.Context(), webhook.Callback{JobID: "quiet", Digest: "of bob's", URL: "https://bob.example/"}); err != nil || !made {
		t.Fatalf("register: %t, %v", made, err)
	}
	f.token = names["ada"]
	for _, method := range []string{"GET", "POST"} {
		if got := f.request(method, Prefix+"/traces/quiet/webhook", ""); got.status != 404 {
			t.Errorf("%s of another's: got %d %s", method, got.status, got.body)
		}
	}
	if got := f.post("/traces", with("1", "quiet", "https://ada.example/late")); got.status != 202 {
		t.Errorf("a callback for the own job: got %d %s", got.status, got.body)
	}
	for id, want := range map[string]string{"called": "/secret", "quiet": "/late"} {
		if got := f.get("/traces/" + id + "/webhook"); got.status != 200 || !strings.Contains(got.body, "https://ada.example"+want) {
			t.Errorf("%s: got %d %s", id, got.status, got.body)
		}
	}
}
