package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
)

// bury makes a dead letter of a new job.
func (b *bench) bury(t *testing.T, id, tenant, class string) {
	t.Helper()
	b.submit(t, "--id", id, "--tenant", tenant, "--queue", "batch")
	claim, err := b.ledger.Claim(t.Context(), id, "w1")
	if err != nil {
		t.Fatal(err)
	}
	r := resultOf(id)
	r.Status = job.StatusSystemError
	if err := b.ledger.Bury(t.Context(), id, claim.Fence, class, "the engine\nis away", r); err != nil {
		t.Fatal(err)
	}
}

func TestDlqList(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, class := range []string{"engine", "engine", "poison"} {
		b.bury(t, fmt.Sprintf("job-%d", i), []string{"a", "b", "b"}[i], class)
	}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"all":       {nil, "job-2 job-1 job-0"},
		"class":     {[]string{"--class", "engine"}, "job-1 job-0"},
		"tenant":    {[]string{"--tenant", "b", "--class", "engine"}, "job-1"},
		"queue":     {[]string{"--queue", "default"}, ""},
		"limit":     {[]string{"--limit", "1"}, "job-2"},
		"recent":    {[]string{"--since", "1h"}, "job-2 job-1 job-0"},
		"old":       {[]string{"--until", "2020-01-01"}, ""},
		"from then": {[]string{"--since", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := b.command(t.Context(), "", append([]string{"dlq", "list", "--format", "json"}, tt.args...)...)
			var ids []string
			for line := range strings.Lines(got.stdout) {
				var d deadLetter
				if err := json.Unmarshal([]byte(line), &d); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				if d.Message != "the engine is away" || d.Buried.IsZero() || d.Attempts != 1 {
					t.Errorf("got %+v", d)
				}
				ids = append(ids, d.ID)
			}
			// Burials of the same millisecond have no order.
			if len(ids) != len(strings.Fields(tt.want)) || got.code != 0 {
				t.Errorf("got %v, code %d, stderr %q, want %s", ids, got.code, got.stderr, tt.want)
			}
			for _, id := range ids {
				if !strings.Contains(tt.want, id) {
					t.Errorf("got %s, want one of %s", id, tt.want)
				}
			}
		})
	}
	text := b.command(t.Context(), "", "dlq", "list", "--limit", "2")
	if !strings.HasPrefix(text.stdout, "BURIED") || strings.Count(text.stdout, "\n") != 3 || !strings.Contains(text.stderr, "more with --limit") {
		t.Errorf("got %q, %q", text.stdout, text.stderr)
	}
}

// TestListsKeepTheirForm checks that a variable which is meant for results, that have other forms, does not keep
// batches and dead letters away.
func TestListsKeepTheirForm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.bury(t, "job-0", "a", "engine")
	for _, of := range []string{"dlq list", "dlq show job-0", "dlq requeue --all --dry-run", "batch status none"} {
		got := command(t.Context(), map[string]string{"REDIS_URL": b.url, "TRACEFLEET_FORMAT": "execra"}, "", strings.Fields(of)...)
		if got.code == cli.CodeUsage || strings.Contains(got.stderr, "format") {
			t.Errorf("%s: got code %d, stderr %q", of, got.code, got.stderr)
		}
	}
}

func TestDlqShow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.bury(t, "dead", "a", "engine")
	b.submit(t, "--id", "alive")
	got := b.command(t.Context(), "", "dlq", "show", "dead")
	for _, want := range []string{"the engine is away", "engine", "w1", "batch"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in %s", want, got.stdout)
		}
	}
	var d deadLetter
	doc := b.command(t.Context(), "", "dlq", "show", "dead", "--format", "json")
	if err := json.Unmarshal([]byte(doc.stdout), &d); err != nil || len(d.History) != 1 || d.History[0].Class != "engine" {
		t.Errorf("got %+v, error %v", d, err)
	}
	for id, says := range map[string]string{"alive": "not in the dead letters", "none": "there is no job"} {
		if got := b.command(t.Context(), "", "dlq", "show", id); got.code != cli.CodeNotFound || !strings.Contains(got.stderr, says) {
			t.Errorf("%s: got code %d, stderr %q", id, got.code, got.stderr)
		}
	}
}

func TestDlqRequeueAndPurge(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 6 {
		b.bury(t, fmt.Sprintf("job-%d", i), "a", []string{"engine", "store", "poison"}[i%3])
	}
	report := func(args ...string) bulkReport {
		t.Helper()
		got := b.command(t.Context(), "", append(args, "--format", "json")...)
		var r bulkReport
		if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != 0 {
			t.Fatalf("%v: code %d, stderr %q, error %v", args, got.code, got.stderr, err)
		}
		return r
	}
	want := bulkReport{DryRun: true, Chosen: 2, Classes: map[string]int{"engine": 2}}
	if diff := cmp.Diff(want, report("dlq", "requeue", "--class", "engine", "--dry-run")); diff != "" {
		t.Errorf("dry run (-want +got):\n%s", diff)
	}
	want = bulkReport{Chosen: 2, Classes: map[string]int{"engine": 2}, Done: 2}
	if diff := cmp.Diff(want, report("dlq", "requeue", "--class", "engine", "--rate", "1000")); diff != "" {
		t.Errorf("requeue (-want +got):\n%s", diff)
	}
	if e, err := b.ledger.Get(t.Context(), "job-0"); err != nil || e.State != ledger.StateQueued || e.Attempts != 0 {
		t.Errorf("got %+v, error %v", e, err)
	}
	if r := report("dlq", "requeue", "job-1"); r.Done != 1 {
		t.Errorf("by id: %+v", r)
	}
	if r := report("dlq", "purge", "--queue", "batch", "--limit", "1"); r.Done != 1 {
		t.Errorf("purge one: %+v", r)
	}
	got := b.command(t.Context(), "", "dlq", "purge", "--all")
	if got.code != 0 || !strings.HasPrefix(got.stdout, "2 dead letters purged (") {
		t.Errorf("purge all: %+v", got)
	}
	if got := b.command(t.Context(), "", "dlq", "list", "--class", "none"); got.stdout != "" || !strings.Contains(got.stderr, "no dead letter is such a one") {
		t.Errorf("a filter that nothing passes: got %+v", got)
	}
	if got := b.command(t.Context(), "", "batch", "status"); got.stdout != "" || !strings.Contains(got.stderr, "there are no batches") {
		t.Errorf("batches: got %+v", got)
	}
	if got := b.command(t.Context(), "", "dlq", "list"); got.stdout != "" || !strings.Contains(got.stderr, "there are no dead letters") || got.code != 0 {
		t.Errorf("left: %+v", got)
	}
	for name, args := range map[string][]string{
		"nothing chosen": {"dlq", "purge"}, "both": {"dlq", "requeue", "x", "--all"}, "rate": {"dlq", "requeue", "x", "--rate=-1"},
	} {
		if got := b.command(t.Context(), "", args...); got.code != cli.CodeUsage {
			t.Errorf("%s: got code %d, want %d", name, got.code, cli.CodeUsage)
		}
	}
	if got := b.command(t.Context(), "", "dlq", "purge", "job-0"); got.code != cli.CodeNotFound {
		t.Errorf("purge of a living job: %+v", got)
	}
}

func TestFullFleetRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	env := map[string]string{"REDIS_URL": b.url, "TRACEFLEET_MAX_TENANT_JOBS": "1"}
	if got := command(t.Context(), env, "print(1)\n", "submit", "-"); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	got := command(t.Context(), env, "print(2)\n", "submit", "-")
	// The time follows from how long the first has waited.
	if got.code != cli.CodeRefused || !regexp.MustCompile(`at most 1; try again in [0-9ms]+\n`).MatchString(got.stderr) {
		t.Errorf("got %+v, want a refusal with the time", got)
	}
}

func TestBarLine(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		done, total, moved int64
		elapsed            time.Duration
		width              int
		note, want         string
	}{
		"half":    {50, 100, 50, 10 * time.Second, 60, "", "work [###########-"},
		"no rate": {0, 100, 0, 0, 40, "", "work [---------------------] 0/100   0%"},
		"narrow":  {1, 100, 1, time.Second, 20, "", "work 1/100 1% 1.0/…"},
		"note":    {10, 10, 5, time.Second, 80, "full", "work [#######################################] 10/10 100%  5.0/s  0s left  full"},
	} {
		got := barLine("work", tt.note, tt.done, tt.total, tt.moved, tt.elapsed, tt.width)
		if !strings.HasPrefix(got, tt.want) || len([]rune(got)) > tt.width {
			t.Errorf("%s: got %q (%d columns), want %q in %d", name, got, len([]rune(got)), tt.want, tt.width)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 75 * time.Second: "1m15s", 90 * time.Minute: "1h30m", 72 * time.Hour: "3d",
	} {
		if got := leftText(d); got != want {
			t.Errorf("leftText(%s): got %q, want %q", d, got, want)
		}
	}
}
