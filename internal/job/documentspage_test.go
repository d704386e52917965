package job_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/execra/tracefleet/internal/job"
)

// TestDocumentsPage holds docs/documents.md to the types: every key, status and limit, and the bounds.
func TestDocumentsPage(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "documents.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	want := func(what, text string) {
		t.Helper()
		if !strings.Contains(page, text) {
			t.Errorf("docs/documents.md lacks %s: %s", what, text)
		}
	}
	for _, of := range []any{job.Job{}, job.TraceOptions{}, job.Limits{}} {
		for _, key := range keys(of) {
			want("a key of Job", "`"+key+"`")
		}
	}
	for _, of := range []any{job.Result{}, job.Usage{}, job.Runtime{}, job.TracerReport{}} {
		for _, key := range keys(of) {
			want("a key of Result", `"`+key+`":`)
		}
	}
	var order []string
	for _, s := range job.Statuses() {
		want("a status", "| `"+string(s)+"` |")
		order = append(order, "`"+string(s)+"`")
	}
	if !strings.Contains(strings.ReplaceAll(page, "\n", " "), strings.Join(order, ", ")) {
		t.Errorf("docs/documents.md lacks the order of the statuses: %s", strings.Join(order, ", "))
	}
	for _, n := range job.LimitNames() {
		want("a limit that is hit", "`"+string(n)+"`")
	}
	standard, least, most := numbers(t, job.DefaultLimits()), numbers(t, job.MinLimits()), numbers(t, job.MaxLimits())
	for name, n := range standard {
		want("the bounds of a limit", fmt.Sprintf("| `%s` | %d | %d | %d |", name, n, least[name], most[name]))
	}
	want("the bounds of retention_s", fmt.Sprintf("%d to %d", job.MinRetentionS, job.MaxRetentionS))
}

// keys are the names of a struct's fields in JSON.
func keys(of any) (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

func numbers(t *testing.T, l job.Limits) (all map[string]int64) {
	t.Helper()
	data, err := json.Marshal(l)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}
