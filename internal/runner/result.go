package runner

import (
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/oneline"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/trace"
)

// noteUndecoded is what a result says of a trace that its decoder could not cope with.
const noteUndecoded = "the trace could not be read and was dropped"

// base is the result of a job before anything is known of a run.
func (a *attempt) base() job.Result {
	e := a.claim.Entry
	r := job.Result{
		Schema: job.ResultSchema, ID: e.ID, LimitsHit: []job.LimitName{}, Encoding: job.EncodingUTF8, Limits: a.job.Limits,
		Runtime: job.Runtime{Language: job.LanguagePython},
		Tracer:  job.TracerReport{Trust: job.TrustInProcess, Notes: []string{}},
		Worker:  a.cfg.Worker, Attempt: a.claim.Attempt, EnqueuedAt: e.CreatedAt, FinishedAt: now(),
	}
	if !e.CreatedAt.IsZero() && !e.ClaimedAt.IsZero() {
		// Both times are of one clock, that of Redis.
		r.Usage.QueueMS = max(e.ClaimedAt.Sub(e.CreatedAt), 0).Milliseconds()
	}
	return r
}

// unrun is the result of a job whose program did not run.
func (a *attempt) unrun(status job.Status, text string) job.Result {
	r := a.base()
	text = oneline.Of(text, maxErrorDetail)
	r.Status, r.Error = status, &text
	r.Headline = headline(r)
	return r
}

// assemble makes the result of a run from what was seen from outside and what the tracer said.
func (a *attempt) assemble(o sandbox.Outcome, rec trace.Recording, canceled bool) job.Result {
	v := classify(a.job.Limits, o, testimonyOf(rec), canceled)
	r := a.base()
	r.Status, r.Returncode, r.Signal, r.LimitsHit = v.status, v.returncode, v.signal, v.hits
	if v.err != "" {
		r.Error = &v.err
	}
	a.streams(&r, o)
	if o.Runtime.Language != "" {
		r.Runtime = o.Runtime
	}
	started := o.StartedAt.UTC().Truncate(time.Millisecond)
	r.StartedAt = &started
	r.Usage.WallMS = o.Wall.Milliseconds()
	if o.End != nil {
		r.Usage.WallMS, r.Usage.CPUMS = o.End.WallMS, o.End.CPUMS
		r.Usage.MaxMemoryBytes, r.Usage.MaxProcesses = o.End.MaxMemoryBytes, o.End.MaxProcesses
	}
	a.testify(&r, rec)
	r.Headline = headline(r)
	r.FinishedAt = now()
	return r
}

// streams adds what the program wrote.
func (a *attempt) streams(r *job.Result, o sandbox.Outcome) {
	r.StdoutBytes, r.StderrBytes = o.Stdout.Total, o.Stderr.Total
	if o.End != nil {
		// What was written after the cap is counted by the supervisor only.
		r.StdoutBytes, r.StderrBytes = max(r.StdoutBytes, o.End.StdoutBytes), max(r.StderrBytes, o.End.StderrBytes)
	}
	r.StdoutTruncated = r.StdoutBytes > int64(len(o.Stdout.Data))
	r.StderrTruncated = r.StderrBytes > int64(len(o.Stderr.Data))
	var lossyOut, lossyErr bool
	r.Stdout, lossyOut = streamText(o.Stdout.Data, r.StdoutTruncated)
	r.Stderr, lossyErr = streamText(o.Stderr.Data, r.StderrTruncated)
	if lossyOut || lossyErr {
		r.Encoding = job.EncodingUTF8Lossy
	}
}

// testify adds what the tracer said, as far as it does not contradict what was seen from outside.
func (a *attempt) testify(r *job.Result, rec trace.Recording) {
	if a.job.Trace.Mode != job.TraceOff {
		r.Trace, r.Summary, r.Effects = rec.Trace, rec.Summary, rec.Effects
	}
	// Not only with exit status 1: a hook may exit otherwise, the standard error be closed, the message flood it,
	// and an uncaught KeyboardInterrupt ends the interpreter by a signal.
	r.Exception = rec.Exception
	r.Tracer.Complete = rec.Complete && !r.Status.Abnormal()
	r.Tracer.Detached = rec.Detached
	r.Tracer.Notes = append(r.Tracer.Notes, rec.Notes...)
}

// decode reads the trace memory. It is what hostile programs left, so a fault in the decoder
// costs the trace, not the job, whose verdict comes from elsewhere.
func (a *attempt) decode(o sandbox.Outcome) (rec trace.Recording) {
	defer func() {
		if p := recover(); p != nil {
			a.cfg.Metrics.panics.Inc()
			a.log.Error("the trace decoder panicked", zap.String("panic", fmt.Sprint(p)), zap.ByteString("stack", debug.Stack()))
			rec = trace.Recording{Notes: []string{noteUndecoded}}
		}
	}()
	j := a.job
	return trace.Decode(o.Memory, trace.Options{
		Entrypoint: j.Entrypoint, Files: j.Files, Mode: string(j.Trace.Mode),
		EventBudget: j.Limits.TraceEvents,
	})
}

func testimonyOf(rec trace.Recording) testimony {
	t := testimony{syntaxError: rec.SyntaxError, exception: rec.Exception}
	for _, h := range rec.Hits {
		t.hits = append(t.hits, job.LimitName(h))
	}
	return t
}

// now is the time of this worker as results have it.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
