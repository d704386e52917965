package api

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/execra/tracefleet/internal/job"
)

func TestSubmitAndRead(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	first := f.post("/traces", `{"code":"1/0","id":"a","name":"one","labels":{"k":"v"}}`)
	if first.status != http.StatusAccepted || first.header.Get("Location") != "/api/v1/traces/a" || first.header.Get("Retry-After") != "1" {
		t.Fatalf("got %d %v, want 202 with Location and Retry-After", first.status, first.header)
	}
	var doc TraceDocument
	first.json(t, &doc)
	if doc.ID != "a" || doc.State != "queued" || doc.Status != nil || doc.Name != "one" || doc.Links.Page != "/traces/a" {
		t.Errorf("got %+v", doc)
	}
	again := f.post("/traces", `{"id":"a","files":{"main.py":"1/0"}}`)
	if again.status != http.StatusAccepted || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the same input: got %d, replayed %q", again.status, again.header.Get("Idempotent-Replayed"))
	}
	other := f.post("/traces", `{"id":"a","code":"2/0"}`)
	if p := other.problem(t); other.status != 422 || p.Type != ProblemType+"id-reused" || p.Errors[0].Location != "body.id" {
		t.Errorf("other input: got %d %+v", other.status, p)
	}
	var input job.Job
	f.get("/traces/a/input").json(t, &input)
	want := job.Job{ID: "a", Name: "one", Labels: map[string]string{"k": "v"}, Files: map[string]string{"main.py": "1/0"}}.Normalize()
	if diff := cmp.Diff(want, input); diff != "" {
		t.Errorf("input (-want +got):\n%s", diff)
	}

	f.finish("a")
	done := f.get("/traces/a")
	done.json(t, &doc)
	if done.status != 200 || doc.State != "finished" || *doc.Status != "exception" || doc.Result == nil || doc.Result.Stdout != "hi\n" {
		t.Errorf("got %d %s", done.status, done.body)
	}
	tag := done.header.Get("ETag")
	if same := f.get("/traces/a", "If-None-Match", tag); tag == "" || same.status != http.StatusNotModified || same.body != "" {
		t.Errorf("ETag %q: got %d", tag, same.status)
	}
	if sent := f.post("/traces?wait=1", `{"id":"a","code":"1/0"}`); sent.status != 200 || !strings.Contains(sent.body, `"result":{"schema"`) {
		t.Errorf("submitting what has ended: got %d %s", sent.status, sent.body)
	}
	canceled := f.request(http.MethodDelete, Prefix+"/traces/a", "")
	canceled.json(t, &doc)
	if canceled.status != 200 || doc.State != "finished" {
		t.Errorf("cancel what has ended: got %d %+v", canceled.status, doc)
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	for range 2 {
		if got := f.post("/traces", `{"code":"1"}`, "Idempotency-Key", "k-1"); got.status != 202 || got.header.Get("Location") != "/api/v1/traces/k-1" {
			t.Errorf("got %d %v", got.status, got.header)
		}
	}
	for body, key := range map[string]string{`{"code":"1","id":"x"}`: "k-1", `{"code":"1"}`: "k 1"} {
		if got := f.post("/traces", body, "Idempotency-Key", key); got.status != 422 || got.problem(t).Errors[0].Location != "header.Idempotency-Key" {
			t.Errorf("%s with %q: got %d %s", body, key, got.status, got.body)
		}
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	// Nobody ends the job, so that each answer tells that a wait is over.
	if short := f.post("/traces?wait=0.05", `{"code":"1","id":"a"}`); short.status != http.StatusAccepted {
		t.Errorf("a wait that is over: got %d", short.status)
	}
	if got := f.get("/traces/a?wait=50ms"); got.status != 200 || got.header.Get("Retry-After") != "1" || strings.Contains(got.body, `"result"`) {
		t.Errorf("a wait that is over: got %d %s", got.status, got.body)
	}
	answers := make(chan answer, 3)
	go func() { answers <- f.get("/traces/a?wait=30s") }()
	go func() { answers <- f.get("/traces/a", "Prefer", "respond-async, wait=30") }()
	go func() { answers <- f.post("/traces", `{"code":"1","id":"a"}`, "Prefer", "wait") }()
	eventually(t, "three wait", func() (bool, any) { n := f.api.waiters.taken(); return n == 3, n })
	f.finish("a")
	applied := 0
	for range 3 {
		got := <-answers
		if got.status != 200 || !strings.Contains(got.body, `"result":{`) {
			t.Errorf("got %d %s", got.status, got.body)
		}
		if got.header.Get("Preference-Applied") != "" {
			applied++
		}
	}
	if applied != 2 {
		t.Errorf("got %d Preference-Applied, want 2", applied)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	f.submit(`{"code":"1","id":"queued"}`)
	f.submit(`{"code":"1","id":"running"}`)
	if _, err := f.ledger.Claim(t.Context(), "running", "w"); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]int{"queued": 200, "running": 202} {
		got := f.request(http.MethodDelete, Prefix+"/traces/"+id, "")
		var doc TraceDocument
		got.json(t, &doc)
		if got.status != want || id == "running" && !doc.CancelRequested || id == "queued" && doc.State != "canceled" {
			t.Errorf("%s: got %d %+v, want %d", id, got.status, doc, want)
		}
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	id := f.submit(`{"code":"x=[1]; 1/0"}`)
	if got := f.get("/traces/" + id + "?format=chrome"); got.status != 409 || got.header.Get("Retry-After") != "1" {
		t.Errorf("before the end: got %d", got.status)
	}
	f.finish(id)
	for format, want := range map[string]string{
		"execra": `"trace_log":[{"event_type":"call"`, "pytutor": `{"code":"x=[1]; 1/0","trace":[{"event":"call"`, "chrome": `"traceEvents":[`, "json": `"schema":"tracefleet.result/1"`,
	} {
		if got := f.get("/traces/" + id + "?format=" + format); got.status != 200 || !strings.Contains(got.body, want) {
			t.Errorf("%s: got %d %s", format, got.status, got.body)
		}
	}
}

func TestCompression(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	if got := f.get("/healthz", "Accept-Encoding", "gzip"); got.header.Get("Content-Encoding") != "" {
		t.Error("a small answer is compressed")
	}
	id := f.submit(`{"code":"` + strings.Repeat("print(1)\\n", 1000) + `"}`)
	whole := f.get("/traces/"+id+"/input", "Accept-Encoding", "identity")
	tests := map[string]string{"gzip": "gzip", "zstd": "zstd", "gzip, zstd": "zstd", "gzip;q=1, zstd;q=0.5": "gzip", "zstd;q=0, *": "gzip", "br": "", "*;q=0": ""}
	for accept, want := range tests {
		got := f.get("/traces/"+id+"/input", "Accept-Encoding", accept)
		if got.header.Get("Content-Encoding") != want || !strings.Contains(got.header.Get("Vary"), "Accept-Encoding") {
			t.Errorf("%q: got %q, want %q", accept, got.header.Get("Content-Encoding"), want)
		}
		if body := unpack(t, want, got.body); body != whole.body {
			t.Errorf("%q: %d bytes, want %d", accept, len(body), len(whole.body))
		}
	}
}

func unpack(t testing.TB, encoding, body string) string {
	t.Helper()
	var r io.Reader = strings.NewReader(body)
	switch encoding {
	case "gzip":
		z, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		r = z
	case "zstd":
		z, err := zstd.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		r = z
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// sse reads events from a stream until it ends or n were read.
func (f *fixture) sse(path, last string, n int, headers ...string) (status int, events []string) {
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, f.base+Prefix+path, nil)
	if err != nil {
		f.t.Error(err)
		return 0, nil
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := f.client.Do(r)
	if err != nil {
		f.t.Error(err)
		return 0, nil
	}
	defer func() { _ = got.Body.Close() }()
	id := ""
	for lines := bufio.NewScanner(got.Body); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			id = rest
		}
		if rest, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			if events = append(events, rest+"/"+id); len(events) == n {
				break
			}
		}
	}
	return got.StatusCode, events
}

func TestEvents(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	id := f.submit(`{"code":"1"}`)
	seen := make(chan []string, 1)
	go func() {
		_, events := f.sse("/traces/"+id+"/events", "", 0)
		seen <- events
	}()
	eventually(t, "one listens", func() (bool, any) { n := f.api.waiters.taken(); return n == 1, n })
	f.finish(id)
	want := []string{"queued/queued-0", "started/started-1", "finished/finished-1"}
	if diff := cmp.Diff(want, <-seen); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for last, want := range map[string][]string{"": want, "queued-0": want[1:], "started-1": want[2:], "nonsense": want} {
		if _, got := f.sse("/traces/"+id+"/events", last, 0); cmp.Diff(want, got) != "" {
			t.Errorf("after %q: got %v, want %v", last, got, want)
		}
	}
	if status, got := f.sse("/traces/"+id+"/events", "finished-1", 0); status != http.StatusNoContent || got != nil {
		t.Errorf("after the end: got %d %v, want 204", status, got)
	}
}

func TestTraceparent(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	got := f.post("/traces", `{"code":"1","id":"a"}`, "traceparent", parent)
	var j job.Job
	f.get("/traces/a/input").json(t, &j)
	if got.header.Get("traceparent") != parent || j.Labels["traceparent"] != parent {
		t.Errorf("got header %q, label %q", got.header.Get("traceparent"), j.Labels["traceparent"])
	}
	if got := f.get("/limits", "traceparent", "00-nonsense"); got.status != 200 || got.header.Get("traceparent") != "" {
		t.Errorf("a bad one: got %d %q", got.status, got.header.Get("traceparent"))
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	body := "{\"code\":\"1\",\"id\":\"mine\"}\n\n{\"code\":\"2\",\"name\":\"two\"}\nnot json\n{\"code\":\"2\",\"kode\":1}\n{\"code\":\"2\",\"name\":\"two\"}"
	lines := func(got answer) []BatchLine {
		var all []BatchLine
		for line := range strings.SplitSeq(strings.TrimSpace(got.body), "\n") {
			var l BatchLine
			answer{status: got.status, body: line}.json(t, &l)
			all = append(all, l)
		}
		return all
	}
	got := f.post("/batches?name=b", body, "Content-Type", mediaNDJSON)
	all := lines(got)
	if got.status != 200 || got.header.Get("Location") != "/api/v1/batches/b" || len(all) != 5 {
		t.Fatalf("got %d %v %s", got.status, got.header, got.body)
	}
	for i, want := range []int{202, 202, 400, 422, 202} {
		if all[i].Status != want || all[i].Index != i || (all[i].Problem != nil) != (want >= 400) {
			t.Errorf("line %d: got %+v, want %d", i, all[i], want)
		}
	}
	if all[0].ID != "mine" || all[1].ID == all[4].ID || all[3].Problem.Errors[0].Location != "body.kode" {
		t.Errorf("got %+v", all)
	}
	for i, line := range lines(f.post("/batches?name=b", body, "Content-Type", mediaNDJSON)) {
		if line.ID != all[i].ID || line.Problem == nil && !line.Existed {
			t.Errorf("again, line %d: got %+v, want the same job", i, line)
		}
	}
	var doc BatchDocument
	f.get("/batches/b?limit=2").json(t, &doc)
	if doc.Total != 3 || doc.Open != 3 || !doc.Complete || len(doc.Items) != 2 || doc.Next == nil || *doc.Next != 2 || doc.Items[1].Key != "two" {
		t.Errorf("got %+v", doc)
	}
	done := make(chan answer, 1)
	go func() { done <- f.get("/batches/b?wait=20s") }()
	eventually(t, "one waits", func() (bool, any) { n := f.api.waiters.taken(); return n == 1, n })
	for _, i := range []int{4, 0, 1} {
		f.finish(all[i].ID)
	}
	(<-done).json(t, &doc)
	if doc.Open != 0 || doc.Counts["exception"] != 3 {
		t.Errorf("after the wait: got %+v", doc)
	}
	if got := f.get("/batches/other"); got.status != 404 {
		t.Errorf("no batch: got %d", got.status)
	}
	if got := f.post("/batches", strings.Repeat("{}\n", maxBatchJobs+1), "Content-Type", mediaNDJSON); got.status != 422 {
		t.Errorf("too many: got %d", got.status)
	}
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	for _, id := range []string{"a", "b", "c"} {
		f.submit(`{"code":"1","id":"` + id + `","tenant":"t-` + id + `"}`)
		f.bury(id)
	}
	var list DeadLetterList
	f.get("/dead-letters?limit=2").json(t, &list)
	if len(list.Items) != 2 || list.Items[0].Class != "engine" || list.Items[0].Message != "the engine is away" {
		t.Errorf("got %+v", list)
	}
	f.get("/dead-letters?tenant=t-a&class=engine&since=2020-01-01T00:00:00Z").json(t, &list)
	if len(list.Items) != 1 || list.Items[0].ID != "a" {
		t.Errorf("filtered: got %+v", list)
	}
	var one DeadLetterDocument
	f.get("/dead-letters/a").json(t, &one)
	if one.ID != "a" || len(one.History) != 1 || one.History[0].Class != "engine" {
		t.Errorf("got %+v", one)
	}
	var did RequeueAnswer
	f.post("/dead-letters/requeue", `{"filter":{},"dry_run":true}`).json(t, &did)
	if len(did.Items) != 3 || did.Items[0].Outcome != "would_requeue" {
		t.Errorf("dry run: got %+v", did)
	}
	f.post("/dead-letters/requeue", `{"ids":["a","nobody"]}`).json(t, &did)
	if len(did.Items) != 2 || did.Items[0] != (RequeueItem{ID: "nobody", Outcome: "not_found"}) || did.Items[1] != (RequeueItem{ID: "a", Outcome: "requeued"}) {
		t.Errorf("requeue: got %+v", did)
	}
	var doc TraceDocument
	f.get("/traces/a").json(t, &doc)
	if doc.State != "queued" {
		t.Errorf("after it: got %+v", doc)
	}
	for _, body := range []string{`{}`, `{"ids":["a"],"filter":{}}`, `{"filter":{"queue":"fast"}}`, `{"ids":"a"}`, `{"all":true}`} {
		if got := f.post("/dead-letters/requeue", body); got.status != 422 {
			t.Errorf("%s: got %d %s", body, got.status, got.body)
		}
	}
	if got := f.get("/dead-letters/b-not"); got.status != 404 {
		t.Errorf("none: got %d", got.status)
	}
}
