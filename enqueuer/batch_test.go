package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execra/tracefleet/internal/batch"
	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
)

// jsonl writes Job documents, one a line, whose programs print their number.
func jsonl(t *testing.T, n int) string {
	t.Helper()
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"language":"python","code":"print(%d)\n"}`+"\n\n", i)
	}
	path := filepath.Join(t.TempDir(), "jobs.jsonl")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// finishBatch ends the jobs of a batch with the given statuses, in turn.
func (b *bench) finishBatch(t *testing.T, name string, statuses ...job.Status) {
	t.Helper()
	items, err := b.ledger.BatchItems(t.Context(), name, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for i, item := range items {
		claim, err := b.ledger.Claim(t.Context(), item.ID, "w1")
		if err != nil {
			t.Fatal(err)
		}
		r := resultOf(item.ID)
		r.Status = statuses[i%len(statuses)]
		if err := b.ledger.Finish(t.Context(), item.ID, claim.Fence, r); err != nil {
			t.Fatal(err)
		}
	}
}

func (b *bench) submitBatch(t *testing.T, args ...string) string {
	t.Helper()
	got := b.command(t.Context(), "", append([]string{"batch", "submit"}, args...)...)
	if got.code != 0 {
		t.Fatalf("batch submit: code %d, stderr %q", got.code, got.stderr)
	}
	return strings.TrimSpace(got.stdout)
}

func TestBatchOfAFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	from := jsonl(t, 250)
	name := b.submitBatch(t, from, "--tenant", "acme")
	if again := b.submitBatch(t, from, "--tenant", "acme"); again != name {
		t.Errorf("the same input is batch %q, then %q", name, again)
	}
	counts, err := b.ledger.Counts(t.Context(), nil)
	if err != nil || counts.Open[job.QueueBatch] != 250 {
		t.Errorf("%d jobs are open, error %v, want 250", counts.Open[job.QueueBatch], err)
	}
	out := filepath.Join(t.TempDir(), "out.jsonl")
	got := b.command(t.Context(), "", "batch", "results", name, "-o", out, "--wait", "0s")
	if got.code != cli.CodeFailed || !strings.Contains(got.stderr, "result 1 is not there yet") {
		t.Errorf("results of open jobs: %+v", got)
	}
	b.finishBatch(t, name, job.StatusOK, job.StatusException)
	var report batchReport
	status := b.command(t.Context(), "", "batch", "status", name, "--wait", "1m", "--format", "json")
	if err := json.Unmarshal([]byte(status.stdout), &report); err != nil || report.Jobs != 250 || report.Open != 0 || report.Statuses["ok"] != 125 {
		t.Errorf("status: %+v, error %v", report, err)
	}
	if got := b.command(t.Context(), "", "batch", "results", name, "-o", out); got.code != 0 {
		t.Errorf("results: %+v", got)
	}
	whole, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	// Broken off in the middle of a line.
	if err := os.Truncate(out, int64(len(whole))*2/3); err != nil {
		t.Fatal(err)
	}
	if got := b.command(t.Context(), "", "batch", "results", name, "-o", out); got.code != 0 || !strings.Contains(got.stderr, "250 results") {
		t.Errorf("results, resumed: %+v", got)
	}
	resumed, err := os.ReadFile(out)
	if err != nil || string(resumed) != string(whole) {
		t.Errorf("the resumed file has %d bytes, error %v, want %d", len(resumed), err, len(whole))
	}
	n := 0
	for line := range strings.Lines(string(whole)) {
		var l batch.Line
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Index != int64(n) || l.Key != fmt.Sprintf("line-%d", 2*n+1) {
			t.Fatalf("line %d: %+v, error %v", n, l, err)
		}
		n++
	}
	if n != 250 {
		t.Errorf("%d lines, want 250", n)
	}
	other := b.submitBatch(t, jsonl(t, 3))
	if got := b.command(t.Context(), "", "batch", "results", other, "-o", out); got.code != cli.CodeRefused {
		t.Errorf("results over those of another batch: %+v", got)
	}
	if got := b.command(t.Context(), "", "batch", "status", "none"); got.code != cli.CodeNotFound {
		t.Errorf("no such batch: %+v", got)
	}
	if got := b.command(t.Context(), "", "batch", "status"); strings.Count(got.stdout, "\n") != 2 || !strings.Contains(got.stdout, name) {
		t.Errorf("list: %+v", got)
	}
}

func TestBatchOfAFolder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := tree(t, map[string]string{
		"a.py": "print(1)\n", "sub/b.py": "print(2)\n", "project/main.py": "import lib\n", "project/lib.py": "",
		"job.json": `{"language":"python","code":"print(3)\n","id":"mine"}`, "notes.txt": "no program", ".hidden.py": "no",
		"same.py": "print(1)\n",
	})
	name := b.submitBatch(t, dir, "--batch", "folder", "--wall", "2s", "--label", "run=7")
	items, err := b.ledger.BatchItems(t.Context(), name, 0, 10)
	if err != nil || name != "folder" {
		t.Fatalf("batch %q, error %v", name, err)
	}
	ids, keys := map[string]bool{}, []string{}
	for _, item := range items {
		ids[item.ID] = true
		keys = append(keys, item.Key)
	}
	if got := strings.Join(keys, " "); got != "a.py job.json project same.py sub/b.py" || len(ids) != 5 {
		t.Errorf("got %q with %d ids", got, len(ids))
	}
	j, err := b.ledger.Input(t.Context(), items[0].ID)
	if err != nil || j.Limits.WallMS != 2000 || j.Queue != job.QueueBatch || j.Labels["run"] != "7" || j.Name != "a.py" {
		t.Errorf("got %+v, error %v", j, err)
	}
}

func TestBatchRefusesBeforeItSubmits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	bad := filepath.Join(t.TempDir(), "bad.jsonl")
	text := `{"language":"python","code":"print(1)\n"}` + "\n" + `{"language":"cobol"}` + "\n"
	if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := b.command(t.Context(), "", "batch", "submit", bad)
	if got.code != cli.CodeRefused || !strings.Contains(got.stderr, "line 2") || !strings.Contains(got.stderr, "language") {
		t.Errorf("got %+v", got)
	}
	counts, err := b.ledger.Counts(t.Context(), nil)
	if err != nil || counts.Open[job.QueueBatch] != 0 {
		t.Errorf("%d jobs were submitted, error %v", counts.Open[job.QueueBatch], err)
	}
	for name, tt := range map[string]struct {
		args []string
		code int
	}{
		"empty":            {[]string{"batch", "submit", t.TempDir()}, cli.CodeRefused},
		"missing":          {[]string{"batch", "submit", "/no/such/file"}, cli.CodeFailed},
		"bad name":         {[]string{"batch", "submit", bad, "--batch", "a b"}, cli.CodeRefused},
		"part of a second": {[]string{"batch", "submit", bad, "--retention", "90500ms"}, cli.CodeUsage},
	} {
		if got := b.command(t.Context(), "", tt.args...); got.code != tt.code {
			t.Errorf("%s: got %+v, want code %d", name, got, tt.code)
		}
	}
}

func TestBatchReprocess(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	name := b.submitBatch(t, jsonl(t, 12), "--batch", "nightly")
	b.finishBatch(t, name, job.StatusOK, job.StatusTimeLimit, job.StatusException)
	got := b.command(t.Context(), "", "batch", "reprocess", "--from", name, "--status", "time_limit,exception", "--wait", "0s")
	if got.code != 0 || strings.TrimSpace(got.stdout) != "nightly.r1" || !strings.Contains(got.stderr, "8 jobs run again") {
		t.Fatalf("got %+v", got)
	}
	b.finishBatch(t, "nightly.r1", job.StatusOK, job.StatusException)
	var report batchReport
	status := b.command(t.Context(), "", "batch", "status", "nightly.r1", "--format", "json")
	if err := json.Unmarshal([]byte(status.stdout), &report); err != nil || report.Diff == nil {
		t.Fatalf("got %+v, error %v", status, err)
	}
	// Pairs of time_limit and exception became ok and exception.
	if report.Diff.Same != 4 || report.Diff.Changed != 4 || report.Diff.Changes[0].Old != "time_limit" || report.Diff.Changes[0].New != "ok" {
		t.Errorf("diff: %+v", report.Diff)
	}
	text := b.command(t.Context(), "", "batch", "status", "nightly.r1")
	if !strings.Contains(text.stdout, "time_limit -> ok  4") {
		t.Errorf("got %s", text.stdout)
	}
	items, err := b.ledger.BatchItems(t.Context(), "nightly.r1", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	before, err1 := b.ledger.Input(t.Context(), items[0].OldID)
	after, err2 := b.ledger.Input(t.Context(), items[0].ID)
	if err1 != nil || err2 != nil || before.Digest() != after.Digest() {
		t.Errorf("the input changed: %v, %v", err1, err2)
	}
	again := b.command(t.Context(), "", "batch", "reprocess", "--from", name, "--wait", "0s")
	if strings.TrimSpace(again.stdout) != "nightly.r2" {
		t.Errorf("got %+v", again)
	}
	if got := b.command(t.Context(), "", "batch", "reprocess", "--from", "none"); got.code != cli.CodeNotFound {
		t.Errorf("got %+v", got)
	}
	if got := b.command(t.Context(), "", "batch", "reprocess", "--from", name, "--status", "fine"); got.code != cli.CodeUsage {
		t.Errorf("got %+v", got)
	}
	if e, err := b.ledger.Get(t.Context(), items[0].OldID); err != nil || e.State != ledger.StateFinished {
		t.Errorf("the old job: %+v, error %v", e, err)
	}
}
