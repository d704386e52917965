package api

import (
	"net/http"

	"github.com/execra/tracefleet/internal/webhook"
)

func webhookDocument(d webhook.Delivery) WebhookDocument {
	return WebhookDocument{
		ID: d.JobID, EventID: d.EventID, URL: d.URL, State: string(d.State), Attempts: d.Attempts,
		LastStatus: d.LastStatus, LastError: d.LastError, NextAt: d.NextAt,
	}
}

// webhook answers with the delivery of a job's callback.
func (a *API) webhook(w http.ResponseWriter, r *http.Request) error {
	d, err := a.delivery(r)
	if err != nil {
		return err
	}
	return a.answer(w, r, http.StatusOK, webhookDocument(d))
}

// replayWebhook sends a callback again.
func (a *API) replayWebhook(w http.ResponseWriter, r *http.Request) error {
	d, err := a.delivery(r)
	if err != nil {
		return err
	}
	if d, err = a.cfg.Hooks.Replay(r.Context(), d.JobID); err != nil {
		return err
	}
	a.cfg.Poke()
	return a.answer(w, r, http.StatusAccepted, webhookDocument(d))
}

// delivery finds the delivery of the job in the path. One that came with other input is not this job's.
func (a *API) delivery(r *http.Request) (webhook.Delivery, error) {
	entry, err := a.find(r)
	if err != nil {
		return webhook.Delivery{}, err
	}
	if a.cfg.Hooks == nil {
		return webhook.Delivery{}, notFound("webhook")
	}
	d, err := a.cfg.Hooks.Get(r.Context(), entry.ID)
	if err == nil && !d.Of(entry.Digest) {
		return d, notFound("webhook")
	}
	return d, err
}
