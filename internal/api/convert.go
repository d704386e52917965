package api

import (
	"bytes"
	"net/http"

	"github.com/execra/tracefleet/internal/render"
	"github.com/execra/tracefleet/internal/trace"
)

// convert answers with the result in the form of another tool.
func (a *API) convert(w http.ResponseWriter, r *http.Request, id, format string) error {
	return a.answerLarge(w, r, http.StatusOK, func() ([]byte, error) {
		result, err := a.cfg.Desk.Result(r.Context(), id)
		if err != nil {
			return nil, err
		}
		switch format {
		case "pytutor":
			j, err := a.cfg.Book.Input(r.Context(), id)
			if err != nil {
				return nil, err
			}
			in := trace.PyTutorInput{Code: j.Files[j.Entrypoint], Entrypoint: j.Entrypoint, Stdout: result.Stdout, Exception: result.Exception}
			if result.Error != nil {
				in.Stopped = *result.Error
			}
			return encode(trace.PyTutor(result.Trace, in))
		case "chrome":
			return encode(trace.Chrome(result.Trace))
		}
		var body bytes.Buffer
		err = render.Execra(&body, result)
		return body.Bytes(), err
	})
}
