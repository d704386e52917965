package runner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/trace"
	"github.com/execra/tracefleet/internal/wire"
)

func newAttempt(mode job.TraceMode) *attempt {
	j := job.Job{ID: "a", Files: map[string]string{"main.py": ""}}.Normalize()
	j.Trace.Mode = mode
	return &attempt{
		Runner: &Runner{cfg: Config{Worker: "w"}.WithDefaults()}, log: zap.NewNop(), job: j,
		claim: ledger.Claim{Attempt: 1, Entry: ledger.Entry{ID: "a"}},
	}
}

// What the tracer says adds to a result, and never contradicts what was seen from outside.
func TestTestimonyInResults(t *testing.T) {
	t.Parallel()
	recording := trace.Recording{
		Trace: &trace.Trace{}, Summary: &trace.Summary{TotalCalls: 1}, Complete: true, Detached: true,
		Exception: &trace.Exception{Type: "E", Message: "m", File: "main.py", Line: 1, Function: "f"},
		Effects:   []trace.Effect{{Kind: trace.EffectFile, Action: "read", Name: "x"}},
		Notes:     []string{"a note"}, Hits: []string{"disk", "wall"},
	}
	type facts struct {
		status                     job.Status
		headline                   string
		exception, trace, complete bool
		hits                       []job.LimitName
	}
	for name, c := range map[string]struct {
		mode     job.TraceMode
		end      *wire.EndInfo
		syntax   bool
		canceled bool
		want     facts
	}{
		"exception":            {job.TraceFull, exited(1), false, false, facts{job.StatusException, "E: m (main.py:1 in f)", true, true, true, []job.LimitName{"disk"}}},
		"syntax error":         {job.TraceFull, exited(1), true, false, facts{job.StatusSyntaxError, "E: m (main.py:1 in f)", true, true, true, []job.LimitName{"disk"}}},
		"untraced":             {job.TraceOff, exited(1), false, false, facts{job.StatusException, "E: m (main.py:1 in f)", true, false, true, []job.LimitName{"disk"}}},
		"keyboard interrupt":   {job.TraceFull, killedBy(2), false, false, facts{job.StatusSignaled, "Killed by the signal SIGINT.", true, true, true, []job.LimitName{"disk"}}},
		"left with 0":          {job.TraceFull, exited(0), false, false, facts{job.StatusOK, "Finished normally.", true, true, true, []job.LimitName{"disk"}}},
		"left with 3":          {job.TraceFull, exited(3), true, false, facts{job.StatusExitNonzero, "Exited with code 3.", true, true, true, []job.LimitName{"disk"}}},
		"killed":               {job.TraceFull, supervisorKilled("wall"), false, false, facts{job.StatusTimeLimit, "Code execution timed out after 10s.", true, true, false, []job.LimitName{"wall", "disk"}}},
		"canceled":             {job.TraceFull, nil, false, true, facts{job.StatusCanceled, "Code execution was canceled by a user.", true, true, false, []job.LimitName{"disk"}}},
		"nothing to rely upon": {job.TraceFull, nil, false, false, facts{job.StatusResultInvalid, "The sandbox gave no usable report of the run: it ended without a report.", true, true, false, []job.LimitName{"disk"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := recording
			said.SyntaxError = c.syntax
			r := newAttempt(c.mode).assemble(sandbox.Outcome{End: c.end}, said, c.canceled)
			got := facts{r.Status, r.Headline, r.Exception != nil, r.Trace != nil && r.Summary != nil && len(r.Effects) == 1, r.Tracer.Complete, r.LimitsHit}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(facts{})); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if !r.Tracer.Detached || !cmp.Equal(r.Tracer.Notes, []string{"a note"}) || r.Tracer.Trust != job.TrustInProcess {
				t.Errorf("got tracer report %+v", r.Tracer)
			}
			if data, err := job.EncodeResult(r); err != nil {
				t.Error(err)
			} else if _, err := job.DecodeResult(data); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOutputTotals(t *testing.T) {
	t.Parallel()
	o := sandbox.Outcome{
		End:    &wire.EndInfo{Exited: true, StdoutBytes: 3_000_000, StderrBytes: 2},
		Stdout: sandbox.Stream{Data: []byte("abc\xc3"), Total: 4}, Stderr: sandbox.Stream{Data: []byte("abcd"), Total: 4},
	}
	r := newAttempt(job.TraceFull).assemble(o, trace.Recording{}, false)
	if r.StdoutBytes != 3_000_000 || !r.StdoutTruncated || r.StderrBytes != 4 || r.StderrTruncated {
		t.Errorf("got %d, %t and %d, %t", r.StdoutBytes, r.StdoutTruncated, r.StderrBytes, r.StderrTruncated)
	}
	if r.Stdout != "abc" || r.Encoding != job.EncodingUTF8 {
		t.Errorf("got %q, %s, want the character that was cut in two left out", r.Stdout, r.Encoding)
	}
}

// Garbage in the trace memory costs the trace, never the verdict.
func FuzzDecodeGarbage(f *testing.F) {
	f.Add([]byte("\x00\x01\x02"), []byte("[\"end\",{}]"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		att := newAttempt(job.TraceFull)
		o := sandbox.Outcome{End: exited(0), Memory: [wire.AreaCount][]byte{a, b, a, b}}
		if r := att.assemble(o, att.decode(o), false); r.Status != job.StatusOK {
			t.Errorf("got %s", r.Status)
		}
	})
}
