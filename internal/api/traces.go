package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/execra/tracefleet/internal/api/access"
	"github.com/execra/tracefleet/internal/detach"
	"github.com/execra/tracefleet/internal/intake"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/webhook"
)

// traceparentLabel is the label that carries the trace context of a submission.
const traceparentLabel = "traceparent"

// forgetTimeout bounds the taking back of a callback whose job was refused.
const forgetTimeout = 5 * time.Second

// submission is what a POST asks for.
type submission struct {
	job      job.Job
	callback string
}

// readSubmission reads one Job document for somebody.
func (a *API) readSubmission(document []byte, f *requestFacts) (submission, error) {
	var s submission
	var err error
	s.job, err = job.DecodeWith(bytes.NewReader(document), a.cfg.Maxima(), map[string]*string{"callback_url": &s.callback})
	if err != nil {
		if !utf8.Valid(document) || !json.Valid(document) {
			return s, malformed(err)
		}
		return s, err
	}
	if !f.identity.AllTenants {
		if s.job.Tenant != "" && s.job.Tenant != f.identity.Tenant {
			return s, invalid("body.tenant", "must be left out, or be the tenant of the token")
		}
		s.job.Tenant = f.identity.Tenant
	}
	if f.traceparent != "" && s.job.Labels[traceparentLabel] == "" && len(s.job.Labels) < job.MaxLabels {
		s.job.Labels[traceparentLabel] = f.traceparent
	}
	if s.callback != "" {
		if a.cfg.Hooks == nil {
			return s, invalid("body.callback_url", "this server sends no webhooks")
		}
		if err := a.cfg.Targets.Check(s.callback); err != nil {
			return s, invalid("body.callback_url", err.Error())
		}
	}
	return s, nil
}

// malformed is for a body that is no JSON at all.
func malformed(err error) error {
	p := problem(http.StatusBadRequest, "malformed", "Not JSON", "The body is not a JSON document in UTF-8.")
	var faults *job.ValidationError
	if errors.As(err, &faults) && len(faults.Fields) > 0 {
		// The reader says at which line and column; it quotes one character at most.
		p.at("body", faults.Fields[0].Message)
	}
	return p
}

// submit takes one job in and, if asked, waits for it.
func (a *API) submit(w http.ResponseWriter, r *http.Request) error {
	wait, preferred, err := parseWait(r)
	if err != nil {
		return err
	}
	id, existed, err := a.takeBody(w, r)
	if err != nil {
		return err
	}
	if existed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if preferred {
		w.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(wait/time.Second)))
	}
	return a.submitted(w, r, id, wait)
}

// takeBody takes in the job in the body. Nothing of the body is kept when it returns: whoever waits for a result holds no memory.
func (a *API) takeBody(w http.ResponseWriter, r *http.Request) (id string, existed bool, err error) {
	if err := media(r, "application/json"); err != nil {
		return "", false, err
	}
	body, release, err := a.readBody(w, r, job.MaxDocumentBytes)
	defer release()
	if err != nil {
		return "", false, err
	}
	s, err := a.readSubmission(body, facts(r))
	if err != nil {
		return "", false, err
	}
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		switch {
		case s.job.ID != "" && s.job.ID != key:
			return "", false, invalid("header.Idempotency-Key", "must be the same as the body's id, or one of them must be left out")
		case !job.ValidID(key):
			return "", false, invalid("header.Idempotency-Key", "must be an id: letters, digits and . _ : -")
		}
		s.job.ID = key
	}
	return a.take(r.Context(), s)
}

// take hands one job in. Its callback is kept first: it is better to have one whose job never comes than to miss the end.
func (a *API) take(ctx context.Context, s submission) (id string, existed bool, err error) {
	kept := false
	if s.callback != "" {
		if s.job.ID == "" {
			s.job.ID = job.NewID(time.Now())
		}
		if kept, err = a.keepCallback(ctx, s); err != nil {
			return "", false, err
		}
	}
	id, existed, err = a.cfg.Desk.Submit(ctx, s.job)
	var unqueued *intake.QueueError
	if errors.As(err, &unqueued) {
		return id, existed, nil // It is stored, and the fleet will queue it.
	}
	if err != nil && kept {
		ctx, cancel := detach.Context(ctx, forgetTimeout)
		defer cancel()
		_ = a.cfg.Hooks.Forget(ctx, s.job.ID, s.job.Digest()) // What stays is dropped when it is looked at.
	}
	return id, existed, err
}

// keepCallback registers the callback of a submission; made is false when the job has it already. Nothing is told of a
// callback that came with other input: it may be another tenant's.
func (a *API) keepCallback(ctx context.Context, s submission) (made bool, err error) {
	c := webhook.Callback{JobID: s.job.ID, Digest: s.job.Digest(), URL: s.callback, Traceparent: s.job.Labels[traceparentLabel]}
	found, made, err := a.cfg.Hooks.Register(ctx, c)
	if err != nil || made {
		return made, err
	}
	if found.Digest != "" && found.Digest != c.Digest {
		entry, err := a.cfg.Desk.Get(ctx, c.JobID)
		if errors.Is(err, intake.ErrNotFound) || err == nil && entry.Digest != c.Digest {
			return false, intake.ErrConflict
		}
		if err != nil {
			return false, err
		}
		// The job is this one, and what is there came with a submission that is refused.
		if err := a.cfg.Hooks.Forget(ctx, c.JobID, found.Digest); err != nil {
			return false, err
		}
		if found, made, err = a.cfg.Hooks.Register(ctx, c); err != nil || made {
			return made, err
		}
	}
	if found.URL != c.URL {
		return false, invalid("body.callback_url", "the job has another callback already")
	}
	return false, nil
}

// submitted answers a submission: with the result when it is there within the wait.
func (a *API) submitted(w http.ResponseWriter, r *http.Request, id string, wait time.Duration) error {
	entry, err := a.cfg.Desk.Get(r.Context(), id)
	if err != nil {
		return err
	}
	// A Redis that has gone away meanwhile does not undo the submission.
	if entry, err = a.await(r, entry, wait); err != nil && !errors.Is(err, errUnseen) {
		return err
	}
	doc := document(entry)
	w.Header().Set("Location", doc.Links.Self)
	if wait > 0 && entry.State.Terminal() {
		return a.answerResult(w, r, doc)
	}
	w.Header().Set("Retry-After", "1")
	return a.answer(w, r, http.StatusAccepted, doc)
}

// find returns the entry of the job in the path, if it is the caller's business.
func (a *API) find(r *http.Request) (ledger.Entry, error) {
	id, err := pathID(r)
	if err != nil {
		return ledger.Entry{}, err
	}
	e, err := a.cfg.Desk.Get(r.Context(), id)
	if err != nil && !(errors.Is(err, ledger.ErrCorrupt) && visible(facts(r).identity, e)) {
		if errors.Is(err, ledger.ErrCorrupt) {
			return e, notFound("trace")
		}
		return e, err
	}
	if !visible(facts(r).identity, e) {
		return e, notFound("trace")
	}
	return e, err
}

func visible(who access.Identity, e ledger.Entry) bool { return who.Sees(e.Tenant) }

// get answers with the state of a job, and its result when there is one.
func (a *API) get(w http.ResponseWriter, r *http.Request) error {
	wait, preferred, err := parseWait(r)
	if err != nil {
		return err
	}
	entry, err := a.find(r)
	if err != nil {
		return err
	}
	if preferred && !entry.State.Terminal() {
		w.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(wait/time.Second)))
	}
	if entry, err = a.await(r, entry, wait); err != nil {
		return err
	}
	format := r.URL.Query().Get("format")
	if !entry.State.Terminal() {
		if format != "" && format != "json" {
			return intake.ErrNotFinished
		}
		w.Header().Set("Retry-After", "1")
		return a.answer(w, r, http.StatusOK, document(entry))
	}
	tag := fmt.Sprintf(`W/"%s-%d-%d-%s"`, entry.ID, entry.Fence, entry.FinishedAt.UnixMilli(), format)
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "private, no-cache")
	if tagged(r, tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if format != "" && format != "json" {
		return a.convert(w, r, entry.ID, format)
	}
	return a.answerResult(w, r, document(entry))
}

// tagged tells whether If-None-Match names a tag. Tags are compared weakly, as RFC 9110 wants it there.
func tagged(r *http.Request, tag string) bool {
	for candidate := range strings.SplitSeq(strings.Join(r.Header.Values("If-None-Match"), ","), ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || strings.TrimPrefix(candidate, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// answerResult writes a TraceDocument with the result as package job encodes it.
func (a *API) answerResult(w http.ResponseWriter, r *http.Request, doc TraceDocument) error {
	return a.answerLarge(w, r, http.StatusOK, func() ([]byte, error) {
		result, err := a.cfg.Desk.Result(r.Context(), doc.ID)
		if err != nil {
			return nil, err
		}
		encoded, err := job.EncodeResult(result)
		if err != nil {
			return nil, err
		}
		doc.Result = nil
		head, err := encode(doc)
		if err != nil {
			return nil, err
		}
		head = bytes.TrimSuffix(bytes.TrimSpace(head), []byte("}"))
		body := make([]byte, 0, len(head)+len(encoded)+16)
		return append(append(append(append(body, head...), `,"result":`...), encoded...), "}\n"...), nil
	})
}

// input answers with the job that was submitted.
func (a *API) input(w http.ResponseWriter, r *http.Request) error {
	entry, err := a.find(r)
	if err != nil {
		return err
	}
	return a.answerLarge(w, r, http.StatusOK, func() ([]byte, error) {
		j, err := a.cfg.Book.Input(r.Context(), entry.ID)
		if err != nil {
			return nil, err
		}
		j.ID = entry.ID
		return encode(j)
	})
}

// cancel cancels a job.
func (a *API) cancel(w http.ResponseWriter, r *http.Request) error {
	entry, err := a.find(r)
	if err != nil {
		return err
	}
	state, err := a.cfg.Desk.Cancel(r.Context(), entry.ID)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if state == ledger.StateRunning {
		status = http.StatusAccepted
		w.Header().Set("Retry-After", "1")
	}
	if entry, err = a.cfg.Desk.Get(r.Context(), entry.ID); err != nil {
		return err
	}
	return a.answer(w, r, status, document(entry))
}

// limits answers with what a job may ask for.
func (a *API) limits(w http.ResponseWriter, r *http.Request) error {
	maxima := a.cfg.Maxima()
	queues := []string{}
	for _, q := range job.Queues() {
		queues = append(queues, string(q))
	}
	return a.answer(w, r, http.StatusOK, LimitsDocument{
		Minimum: job.MinLimits(), Default: job.DefaultLimits().Clamp(maxima), Maximum: maxima,
		Queues: queues, Languages: []string{job.LanguagePython}, MaxDocumentBytes: job.MaxDocumentBytes,
		MaxSourceBytes: job.MaxSourceBytes, MaxFiles: job.MaxFiles, MaxStdinBytes: job.MaxStdinBytes, MaxWaitS: int64(MaxWait / time.Second),
		SandboxNotice: job.SandboxNotice, Webhooks: a.cfg.Hooks != nil && a.cfg.Targets.Enabled(), Role: facts(r).identity.Role.String(),
	})
}
