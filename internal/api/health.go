package api

import (
	"net/http"
	"strconv"
	"time"
)

// healthz answers while the process can answer at all.
func (a *API) healthz(w http.ResponseWriter, r *http.Request) {
	facts(r).operation = "health"
	a.write(w, r, http.StatusOK, "application/json", []byte(`{"status":"ok"}`+"\n"))
}

// readyz answers 200 when every check passes. It says which fail, not why: that is for the log and the metrics' address.
func (a *API) readyz(w http.ResponseWriter, r *http.Request) {
	facts(r).operation = "health"
	reports, ready := a.cfg.Checks.Run(r.Context())
	answer := struct {
		Status string          `json:"status"`
		Checks map[string]bool `json:"checks"`
	}{"ok", map[string]bool{}}
	for _, report := range reports {
		answer.Checks[report.Name] = report.OK
	}
	status := http.StatusOK
	if !ready {
		status, answer.Status = http.StatusServiceUnavailable, "not ready"
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAway/time.Second)))
	}
	if err := a.answer(w, r, status, answer); err != nil {
		a.fail(w, r, err)
	}
}
