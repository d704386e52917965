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
	return a.hook(w, r, http.StatusOK, func(id string) (webhook.Delivery, error) { return a.cfg.Hooks.Get(r.Context(), id) })
}

// replayWebhook sends a callback again.
func (a *API) replayWebhook(w http.ResponseWriter, r *http.Request) error {
	return a.hook(w, r, http.StatusAccepted, func(id string) (webhook.Delivery, error) {
		d, err := a.cfg.Hooks.Replay(r.Context(), id)
		if err == nil {
			a.cfg.Poke()
		}
		return d, err
	})
}

func (a *API) hook(w http.ResponseWriter, r *http.Request, status int, do func(id string) (webhook.Delivery, error)) error {
	entry, err := a.find(r)
	if err != nil {
		return err
	}
	if a.cfg.Hooks == nil {
		return notFound("webhook")
	}
	d, err := do(entry.ID)
	if err != nil {
		return err
	}
	return a.answer(w, r, status, webhookDocument(d))
}
