package job_test

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/job"
)

func TestNormalizeIsCompleteAndIdempotent(t *testing.T) {
	t.Parallel()
	j := job.Job{Files: map[string]string{"main.py": "x = 1\n"}}
	n := j.Normalize()
	if err := n.Validate(job.MaxLimits()); err != nil {
		t.Errorf("normalized job: %v", err)
	}
	if diff := cmp.Diff(n, n.Normalize()); diff != "" {
		t.Errorf("second Normalize changed the job:\n%s", diff)
	}
	n.Files["other.py"] = ""
	if len(j.Files) != 1 {
		t.Error("Normalize shares the map of files with its argument")
	}
	partly := job.Job{Limits: job.Limits{WallMS: 1000}, Trace: job.TraceOptions{Mode: job.TraceLines}}.Normalize()
	if partly.Limits.CPUMS != 0 || partly.Trace.Values {
		t.Errorf("got %+v, want limits and trace options that are set in part kept as they are", partly)
	}
}

func TestValidateRefusesWhatJSONCannotHold(t *testing.T) {
	t.Parallel()
	j := job.Job{Files: map[string]string{"main.py": "\xff"}, Stdin: "\xfe", Args: []string{"\xfd"}, Name: "\xfc"}.Normalize()
	want := `invalid job: files["main.py"]: must be UTF-8, byte 0 is not; stdin: must be UTF-8, byte 0 is not; ` +
		`args[0]: must be UTF-8, byte 0 is not; name: must be UTF-8, byte 0 is not`
	if err := j.Validate(job.MaxLimits()); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// The canonical form and digest are stored in Redis; a change of either
// would turn resubmitted jobs into conflicts.
func TestCanonicalIsPinned(t *testing.T) {
	t.Parallel()
	j := job.Job{Files: map[string]string{"main.py": "print('<é>')\n", "a.py": ""}, Args: []string{"1"}, Tenant: "t"}
	const canonical = `{"language":"python","entrypoint":"main.py","files":{"a.py":"","main.py":"print('<é>')\n"},"stdin":"","args":["1"],` +
		`"limits":{"wall_ms":10000,"cpu_ms":10000,"memory_bytes":268435456,"output_bytes":1000000,"processes":64,"open_files":32,` +
		`"file_bytes":16777216,"trace_events":10000,"trace_bytes":4194304},"trace":{"mode":"full","values":true,"include":["."]},"tenant":"t"}`
	if diff := cmp.Diff(canonical, string(j.Canonical())); diff != "" {
		t.Errorf("canonical form (-want +got):\n%s", diff)
	}
	const digest = "d431bef4531c2bbdf292508dd7d0b3c05a82ec0a620c2c6f88b70841b9547de9"
	if got := j.Digest(); got != digest {
		t.Errorf("got digest %s, want %s", got, digest)
	}
}

func TestDigestCoversTheRunAndNothingElse(t *testing.T) {
	t.Parallel()
	base := job.Job{Files: map[string]string{"main.py": "print(1)"}}.Normalize()
	for name, c := range map[string]struct {
		change func(*job.Job)
		same   bool
	}{
		"source":     {func(j *job.Job) { j.Files = map[string]string{"main.py": "print(2)"} }, false},
		"entrypoint": {func(j *job.Job) { j.Entrypoint = "b.py" }, false},
		"stdin":      {func(j *job.Job) { j.Stdin = "x" }, false},
		"args":       {func(j *job.Job) { j.Args = []string{"x"} }, false},
		"limit":      {func(j *job.Job) { j.Limits.WallMS++ }, false},
		"trace":      {func(j *job.Job) { j.Trace.Values = false }, false},
		"tenant":     {func(j *job.Job) { j.Tenant = "x" }, false},
		"id":         {func(j *job.Job) { j.ID = "x" }, true},
		"queue":      {func(j *job.Job) { j.Queue = job.QueueBatch }, true},
		"name":       {func(j *job.Job) { j.Name = "x" }, true},
		"labels":     {func(j *job.Job) { j.Labels = map[string]string{"a": "b"} }, true},
		"retention":  {func(j *job.Job) { j.RetentionS = 60 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := base
			c.change(&j)
			if same := j.Digest() == base.Digest(); same != c.same {
				t.Errorf("same digest: got %t, want %t", same, c.same)
			}
		})
	}
}

func TestNewID(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var ids []string
	for i := range 100 {
		id := job.NewID(at.Add(time.Duration(i) * time.Millisecond))
		if !form.MatchString(id) || !job.ValidID(id) {
			t.Fatalf("got %q, want a UUID of version 7", id)
		}
		ids = append(ids, id)
	}
	if !slices.IsSorted(ids) {
		t.Error("ids do not sort by time")
	}
	if one, other := job.NewID(at), job.NewID(at); one == other {
		t.Error("two ids of one moment are equal")
	}
}

func TestValidID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{"a": true, "A.b_c:d-9": true, "": false, ".": false, "a b": false, "a/b": false, "é": false, "a\n": false} {
		if got := job.ValidID(id); got != want {
			t.Errorf("ValidID(%q): got %t, want %t", id, got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	if err := job.DefaultLimits().Validate(job.MaxLimits()); err != nil {
		t.Errorf("defaults: %v", err)
	}
	for _, l := range []job.Limits{job.MinLimits(), job.MaxLimits()} {
		if err := l.Validate(job.MaxLimits()); err != nil {
			t.Errorf("a bound itself is refused: %v", err)
		}
	}
	if got := job.MaxLimits().Clamp(job.DefaultLimits()); got != job.DefaultLimits() {
		t.Errorf("got %+v, want every limit brought down", got)
	}
	if got := job.MinLimits().Clamp(job.DefaultLimits()); got != job.MinLimits() {
		t.Errorf("got %+v, want nothing changed", got)
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int64]string{10_000: "10s", 1_500: "1.5s", 100: "0.1s", 1_234: "1.234s", 300_000: "300s"} {
		if got := job.FormatSeconds(ms); got != want {
			t.Errorf("FormatSeconds(%d): got %q, want %q", ms, got, want)
		}
	}
	for n, want := range map[int64]string{
		256 << 20: "256 MiB", 1_000_000: "1000000 bytes", 4 << 30: "4 GiB", 1536 << 20: "1536 MiB", 64 << 10: "64 KiB", 0: "0 bytes", 1000: "1000 bytes",
	} {
		if got := job.FormatBytes(n); got != want {
			t.Errorf("FormatBytes(%d): got %q, want %q", n, got, want)
		}
	}
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	if got := len(job.Statuses()); got != 12 {
		t.Errorf("got %d statuses, want 12", got)
	}
	for _, s := range job.Statuses() {
		if !s.Valid() {
			t.Errorf("%s is not valid", s)
		}
	}
	if job.Status("done").Valid() || job.LimitName("time").Valid() {
		t.Error("the lists are not closed")
	}
}
