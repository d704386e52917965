package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
