package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/execra/tracefleet/internal/job"
)

// Create stores a job that was validated and has an id, as queued. It is
// idempotent: when the id is taken by a job with the same digest, that job's
// entry is returned and created is false.
//
// The caller puts the job into the queue afterwards, also when created is
// false and the entry is still queued; whoever fails to is helped by the reconciler.
//
// Errors: ErrConflict, with the entry that has the id; *TooLargeError; *FullError; ErrCorrupt
// when the id is taken by a damaged entry.
func (l *Ledger) Create(ctx context.Context, j job.Job) (e Entry, created bool, err error) {
	if !job.ValidID(j.ID) {
		return Entry{}, false, fmt.Errorf("create %.40q: not the id of a job", j.ID)
	}
	blob, size, err := l.codec.encodeInput(j)
	if err != nil {
		return Entry{}, false, fmt.Errorf("create %s: %w", j.ID, err)
	}
	blob = l.cfg.Keys.seal(sealedInput, j.ID, blob)
	digest := j.Digest()
	// First the index, so that a job whose submitter dies behind the next step is found.
	err = l.refuseFull(ctx)
	var ahead int64
	if err == nil {
		ahead, err = l.admit(ctx, j.ID, j.Queue, j.Tenant, l.cfg.Admission)
	}
	if err != nil {
		return l.refused(ctx, j.ID, digest, err)
	}
	e = Entry{
		ID: j.ID, State: StateQueued, Digest: digest, InputBytes: size, Tenant: j.Tenant, Queue: j.Queue, Name: j.Name,
		Retention: j.Retention(), Ahead: ahead,
	}
	got, err := createScript.Run(ctx, l.rdb, jobKeys(j.ID),
		append([]any{l.cfg.OpenTTL.Milliseconds(), blob, rand.Text()}, e.given()...)...).Slice()
	if err != nil {
		return Entry{}, false, reply("create", j.ID, err)
	}
	code, rest := codeOf(got)
	if code == "created" {
		l.cfg.Metrics.created.Inc()
		e.CreatedAt = time.UnixMilli(number(rest, 0)).UTC()
		e.QueuedAt = e.CreatedAt
		return e, true, nil
	}
	e, err = parseEntry(j.ID, entryOf(rest, 0))
	switch {
	case err != nil:
		l.cfg.Metrics.corrupt.Inc()
		return e, false, fmt.Errorf("create %s: %w", j.ID, err)
	case code == "again":
		l.cfg.Metrics.created.Inc()
		return e, true, nil
	case e.State.Terminal():
		l.leaveOpen(ctx, j.ID)
	}
	if e.Digest != digest {
		return e, false, fmt.Errorf("create %s: %w", j.ID, ErrConflict)
	}
	return e, false, nil
}

// given are the fields of a new entry that come from the job, and their values. What is empty is left out.
func (e Entry) given() []any {
	fields := []any{
		"digest", e.Digest, "bytes", e.InputBytes, "queue", string(e.Queue), "retention", e.Retention.Milliseconds(),
	}
	if e.Tenant != "" {
		fields = append(fields, "tenant", e.Tenant)
	}
	if e.Name != "" {
		fields = append(fields, "name", e.Name)
	}
	if e.Ahead > 0 {
		fields = append(fields, "ahead", e.Ahead)
	}
	return fields
}

// refused returns the entry of a job that there is no room for, if it is there already: then it needs none.
func (l *Ledger) refused(ctx context.Context, id, digest string, cause error) (Entry, bool, error) {
	var full *FullError
	if !errors.As(cause, &full) {
		return Entry{}, false, cause
	}
	e, err := l.Get(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		l.cfg.Metrics.refused.WithLabelValues(string(full.Reason)).Inc()
		return Entry{}, false, fmt.Errorf("create %s: %w", id, full)
	case err != nil:
		return e, false, fmt.Errorf("create %s: %w", id, err)
	case e.Digest != digest:
		return e, false, fmt.Errorf("create %s: %w", id, ErrConflict)
	}
	return e, false, nil
}

// Input returns the job as it was submitted.
// Errors: ErrNotFound; ErrCorrupt when it is damaged or no longer a valid job.
func (l *Ledger) Input(ctx context.Context, id string) (job.Job, error) {
	if !job.ValidID(id) {
		return job.Job{}, fmt.Errorf("input %.40q: %w", id, ErrNotFound)
	}
	blob, err := l.readBlob(ctx, inputKey(id), maxInputBytes+int64(sealOverhead))
	if errors.Is(err, errNoBlob) {
		return job.Job{}, fmt.Errorf("input %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return job.Job{}, reply("input", id, err)
	}
	return l.readInput(id, blob)
}

// ClaimedInput returns the job of a claim as it was submitted. As a rule it asks nobody.
// Errors: as Input.
func (l *Ledger) ClaimedInput(ctx context.Context, c Claim) (job.Job, error) {
	if c.input == nil {
		return l.Input(ctx, c.Entry.ID)
	}
	return l.readInput(c.Entry.ID, c.input)
}

// readInput reads the stored input of a job.
func (l *Ledger) readInput(id string, blob []byte) (job.Job, error) {
	var j job.Job
	blob, err := l.cfg.Keys.open(sealedInput, id, blob)
	if errors.Is(err, ErrNoKey) {
		return job.Job{}, fmt.Errorf("input %s: %w", id, err)
	}
	if err == nil {
		j, err = l.codec.decodeInput(blob)
	}
	if err == nil && j.ID != id {
		err = corrupt("input: it is the input of %.40q", j.ID)
	}
	if err != nil {
		l.cfg.Metrics.corrupt.Inc()
		return job.Job{}, fmt.Errorf("input %s: %w", id, err)
	}
	return j, nil
}

// Result returns the result of a job.
// Errors: ErrNotFound; ErrNotFinished; ErrCorrupt.
func (l *Ledger) Result(ctx context.Context, id string) (job.Result, error) {
	if !job.ValidID(id) {
		return job.Result{}, fmt.Errorf("result %.40q: %w", id, ErrNotFound)
	}
	blob, err := l.readBlob(ctx, resultKey(id), l.cfg.MaxResultBytes+int64(sealOverhead))
	if errors.Is(err, errNoBlob) {
		var e Entry
		if e, err = l.Get(ctx, id); err != nil {
			return job.Result{}, err
		}
		if !e.State.Terminal() {
			return job.Result{}, fmt.Errorf("result %s: %w", id, ErrNotFinished)
		}
		// It may have ended between the two looks.
		if blob, err = l.readBlob(ctx, resultKey(id), l.cfg.MaxResultBytes+int64(sealOverhead)); errors.Is(err, errNoBlob) {
			l.cfg.Metrics.corrupt.Inc()
			return job.Result{}, fmt.Errorf("result %s: %w", id, corrupt("the job is %s and its result is missing", e.State))
		}
	}
	if err != nil {
		return job.Result{}, reply("result", id, err)
	}
	var r job.Result
	blob, err = l.cfg.Keys.open(sealedResult, id, blob)
	if errors.Is(err, ErrNoKey) {
		return job.Result{}, fmt.Errorf("result %s: %w", id, err)
	}
	if err == nil {
		r, err = l.codec.decodeResult(blob)
	}
	if err == nil && r.ID != id {
		err = corrupt("result: it is the result of %.40q", r.ID)
	}
	if err != nil {
		l.cfg.Metrics.corrupt.Inc()
		return job.Result{}, fmt.Errorf("result %s: %w", id, err)
	}
	return r, nil
}

// unrun is the result of a job that the ledger ends itself. It never has a run to tell of.
func (l *Ledger) unrun(ctx context.Context, e Entry, status job.Status, text string) (job.Result, error) {
	limits := job.DefaultLimits()
	j, err := l.Input(ctx, e.ID)
	switch {
	case err == nil:
		limits = j.Limits
	case !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotFound):
		return job.Result{}, err
	}
	return job.Result{
		Schema: job.ResultSchema, ID: e.ID, Status: status, Headline: text, Error: &text, Limits: limits,
		Encoding: job.EncodingUTF8, Runtime: job.Runtime{Language: job.LanguagePython},
		Tracer: job.TracerReport{Trust: job.TrustInProcess}, Worker: e.Worker, Attempt: e.Attempts,
		EnqueuedAt: e.CreatedAt, FinishedAt: time.Now().UTC(),
	}, nil
}
