package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// described checks answers against the document.
type described struct {
	doc    *huma.OpenAPI
	checks int
}

// Headers that say something to a client: where one comes without being in the document, nobody can count on it.
func speakingHeaders() []string {
	return []string{"Location", "Retry-After", "ETag", "Idempotent-Replayed", "Preference-Applied", "WWW-Authenticate", "Allow", "X-Request-Id", "traceparent"}
}

// owed are the headers that an answer has to have.
func owed(status int) []string {
	switch status {
	case http.StatusUnauthorized:
		return []string{"X-Request-Id", "WWW-Authenticate"}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return []string{"X-Request-Id", "Retry-After"}
	}
	return []string{"X-Request-Id"}
}

// check tells what is wrong with an answer to an operation.
func (d *described) check(op *huma.Operation, got answer) error {
	r := op.Responses[strconv.Itoa(got.status)]
	if r == nil {
		return fmt.Errorf("status %d is not in the document", got.status)
	}
	if err := checkHeaders(r, got); err != nil {
		return err
	}
	media, _, _ := strings.Cut(got.header.Get("Content-Type"), ";")
	if len(r.Content) == 0 {
		if got.body != "" {
			return fmt.Errorf("status %d has a body", got.status)
		}
		return nil
	}
	content := r.Content[media]
	if content == nil {
		return fmt.Errorf("status %d as %q is not in the document", got.status, media)
	}
	switch media {
	case "text/event-stream":
		return checkEvents(got.body)
	case mediaNDJSON:
		for line := range strings.SplitSeq(strings.TrimSpace(got.body), "\n") {
			if err := d.validate(content.Schema, line); err != nil {
				return fmt.Errorf("status %d: %w", got.status, err)
			}
		}
		return nil
	}
	if err := d.validate(content.Schema, got.body); err != nil {
		return fmt.Errorf("status %d: %w", got.status, err)
	}
	if media == "application/problem+json" {
		return checkProblem(got)
	}
	return nil
}

func checkHeaders(r *huma.Response, got answer) error {
	for _, name := range speakingHeaders() {
		if _, known := r.Headers[name]; got.header.Get(name) != "" && !known {
			return fmt.Errorf("status %d has the header %s, which is not in the document", got.status, name)
		}
	}
	for _, name := range owed(got.status) {
		if got.header.Get(name) == "" {
			return fmt.Errorf("status %d lacks the header %s", got.status, name)
		}
	}
	return nil
}

func (d *described) validate(schema *huma.Schema, body string) error {
	var value any
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		return err
	}
	d.checks++
	result := &huma.ValidateResult{}
	huma.Validate(d.doc.Components.Schemas, schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, value, result)
	return errors.Join(result.Errors...)
}

// checkProblem holds a problem to what it says of itself.
func checkProblem(got answer) error {
	var p Problem
	if err := json.Unmarshal([]byte(got.body), &p); err != nil {
		return err
	}
	switch {
	case p.Status != got.status || !strings.HasPrefix(p.Type, ProblemType) || p.Title == "" || p.Detail == "":
		return fmt.Errorf("the problem is %+v", p)
	case p.RequestID != got.header.Get("X-Request-Id"):
		return fmt.Errorf("the request ids differ: %s", p.RequestID)
	case p.Retryable != (got.header.Get("Retry-After") != ""):
		return fmt.Errorf("retryable is %t, Retry-After %q", p.Retryable, got.header.Get("Retry-After"))
	case got.status == http.StatusUnprocessableEntity && len(p.Errors) == 0:
		return errors.New("no field is named")
	}
	for _, f := range p.Errors {
		if where, _, _ := strings.Cut(f.Location, "."); !slices.Contains([]string{"body", "query", "header", "path"}, where) || f.Message == "" {
			return fmt.Errorf("a fault is %+v", f)
		}
	}
	return nil
}

// checkEvents reads a stream of events to its end.
func checkEvents(body string) error {
	for event := range strings.SplitSeq(strings.TrimSpace(body), "\n\n") {
		if strings.HasPrefix(event, ":") {
			continue
		}
		lines := strings.Split(event, "\n")
		if len(lines) != 3 {
			return fmt.Errorf("an event is %q", event)
		}
		name, named := strings.CutPrefix(lines[1], "event: ")
		data, ok := strings.CutPrefix(lines[2], "data: ")
		if !ok || !named || !strings.HasPrefix(lines[0], "id: "+name+"-") || !slices.Contains([]string{eventQueued, eventStarted, eventFinished}, name) {
			return fmt.Errorf("an event is %q", event)
		}
		var doc EventDocument
		dec := json.NewDecoder(strings.NewReader(data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&doc); err != nil {
			return fmt.Errorf("an event is %q: %w", event, err)
		}
	}
	return nil
}
