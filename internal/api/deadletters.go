package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
)

const (
	// maxDeadLetters bounds one list, maxRequeue one call: more goes in several.
	maxDeadLetters = 1000
	maxRequeue     = 1000
	maxRequeueBody = 256 << 10
)

func deadLetterItem(e ledger.Entry) DeadLetterItem {
	return DeadLetterItem{
		ID: e.ID, Class: e.Class, Message: e.Message, Tenant: e.Tenant, Queue: string(e.Queue), Name: e.Name,
		Attempts: e.Attempts, BuriedAt: e.FinishedAt,
	}
}

// tenantFilter narrows a wish down to what the caller may see.
func tenantFilter(r *http.Request, wish string) (string, error) {
	who := facts(r).identity
	switch {
	case who.AllTenants || wish == who.Tenant:
		return wish, nil
	case wish == "":
		return who.Tenant, nil
	}
	return "", invalid("query.tenant", "must be left out, or be the tenant of the token")
}

// deadLetters lists dead letters.
func (a *API) deadLetters(w http.ResponseWriter, r *http.Request) error {
	if a.cfg.Dead == nil {
		return notFound("list")
	}
	q := r.URL.Query()
	f := ledger.DeadLetterFilter{Class: q.Get("class"), Queue: job.Queue(q.Get("queue"))}
	var err error
	if f.Tenant, err = tenantFilter(r, q.Get("tenant")); err != nil {
		return err
	}
	if f.Limit, err = parseLimit(r, maxDeadLetters); err != nil {
		return err
	}
	if f.Since, err = parseTime(r, "since"); err != nil {
		return err
	}
	if f.Until, err = parseTime(r, "until"); err != nil {
		return err
	}
	entries, err := a.cfg.Dead.DeadLetters(r.Context(), f)
	if err != nil {
		return err
	}
	list := DeadLetterList{Items: []DeadLetterItem{}}
	for _, e := range entries {
		list.Items = append(list.Items, deadLetterItem(e))
	}
	return a.answer(w, r, http.StatusOK, list)
}

// deadLetter answers with one dead letter.
func (a *API) deadLetter(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil || a.cfg.Dead == nil {
		return notFound("dead letter")
	}
	e, attempts, err := a.cfg.Dead.DeadLetter(r.Context(), id)
	if notDead(err) || err == nil && !visible(facts(r).identity, e) {
		return notFound("dead letter")
	}
	if err != nil {
		return err
	}
	doc := DeadLetterDocument{DeadLetterItem: deadLetterItem(e), History: []AttemptDocument{}}
	for _, t := range attempts {
		doc.History = append(doc.History, AttemptDocument{Worker: t.Worker, StartedAt: t.Start, EndedAt: t.End, Class: t.Class})
	}
	return a.answer(w, r, http.StatusOK, doc)
}

// requeue runs dead letters again.
func (a *API) requeue(w http.ResponseWriter, r *http.Request) error {
	if a.cfg.Dead == nil || a.cfg.Office == nil {
		return notFound("list")
	}
	if err := media(r, "application/json"); err != nil {
		return err
	}
	body, release, err := a.readBody(w, r, maxRequeueBody)
	defer release()
	if err != nil {
		return err
	}
	var want RequeueRequest
	if err := decodeStrict(body, &want); err != nil {
		return err
	}
	entries, missing, err := a.chosen(r, want)
	if err != nil {
		return err
	}
	answer := RequeueAnswer{DryRun: want.DryRun, Items: []RequeueItem{}}
	for _, id := range missing {
		answer.Items = append(answer.Items, RequeueItem{ID: id, Outcome: "not_found"})
	}
	for _, e := range entries {
		answer.Items = append(answer.Items, RequeueItem{ID: e.ID, Outcome: a.requeueOne(r.Context(), e.ID, want.DryRun)})
	}
	return a.answer(w, r, http.StatusOK, answer)
}

func (a *API) requeueOne(ctx context.Context, id string, dryRun bool) string {
	if dryRun {
		return "would_requeue"
	}
	err := a.cfg.Office.Requeue(ctx, id)
	switch {
	case err == nil:
		return "requeued"
	case notDead(err):
		return "not_found"
	}
	return "failed"
}

// chosen finds the dead letters that a request means; missing are ids that are none.
func (a *API) chosen(r *http.Request, want RequeueRequest) (entries []ledger.Entry, missing []string, err error) {
	switch {
	case len(want.IDs) > 0 == (want.Filter != nil):
		return nil, nil, invalid("body.ids", "ids or filter must be given, and not both")
	case len(want.IDs) > maxRequeue:
		return nil, nil, invalid("body.ids", fmt.Sprintf("must be at most %d", maxRequeue))
	case want.Filter != nil:
		f := ledger.DeadLetterFilter{Class: want.Filter.Class, Queue: job.Queue(want.Filter.Queue), Limit: want.Filter.Limit}
		if f.Queue != "" && !f.Queue.Valid() {
			return nil, nil, invalid("body.filter.queue", "must be interactive, default or batch")
		}
		if f.Limit < 0 || f.Limit > maxRequeue {
			return nil, nil, invalid("body.filter.limit", fmt.Sprintf("must be a number from 1 to %d", maxRequeue))
		}
		f.Limit = cmp.Or(f.Limit, maxRequeue)
		if f.Tenant, err = tenantFilter(r, want.Filter.Tenant); err != nil {
			return nil, nil, err
		}
		entries, err = a.cfg.Dead.DeadLetters(r.Context(), f)
		return entries, nil, err
	}
	for _, id := range want.IDs {
		if !job.ValidID(id) {
			return nil, nil, invalid("body.ids", "must be ids of jobs: letters, digits and . _ : -")
		}
		e, _, err := a.cfg.Dead.DeadLetter(r.Context(), id)
		switch {
		case notDead(err) || err == nil && !visible(facts(r).identity, e):
			missing = append(missing, id)
		case err != nil:
			return nil, nil, err
		default:
			entries = append(entries, e)
		}
	}
	return entries, missing, nil
}

// notDead tells that a job is not there, or stands elsewhere than in the dead letters.
func notDead(err error) bool {
	return errors.Is(err, ledger.ErrNotDead) || errors.Is(err, ledger.ErrNotFound)
}

// decodeStrict reads a small document of ours: unknown keys and anything behind it are refused.
func decodeStrict(body []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		if !json.Valid(body) {
			return problem(http.StatusBadRequest, "malformed", "Not JSON", "The body is not a JSON document.")
		}
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return invalid("body."+clip(wrong.Field), "has the wrong type")
		}
		return invalid("body", "has a field that is not known, or one of the wrong type")
	}
	if _, err := dec.Token(); err != io.EOF {
		return invalid("body", "must hold one JSON document and nothing behind it")
	}
	return nil
}
