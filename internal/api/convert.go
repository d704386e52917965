package api

import (
	"bytes"
	"net/http"

	"github.com/execra/tracefleet/internal/intake"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/render"
	"github.com/execra/tracefleet/internal/trace"
)

// convert answers with the result in the form of another tool.
func (a *API) convert(w http.ResponseWriter, r *http.Request, id, format string, result *job.Result) error {
	if result == nil {
		return intake.ErrNotFinished
	}
	switch format {
	case "pytutor":
		j, err := a.cfg.Book.Input(r.Context(), id)
		if err != nil {
			return err
		}
		return a.answer(w, r, http.StatusOK, trace.PyTutor(result.Trace, trace.PyTutorInput{
			Code: j.Files[j.Entrypoint], Entrypoint: j.Entrypoint, Stdout: result.Stdout, Exception: result.Exception,
		}))
	case "chrome":
		return a.answer(w, r, http.StatusOK, trace.Chrome(result.Trace))
	}
	var body bytes.Buffer
	if err := render.Execra(&body, *result); err != nil {
		return err
	}
	a.write(w, r, http.StatusOK, "application/json", body.Bytes())
	return nil
}
