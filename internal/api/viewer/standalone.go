package viewer

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/execra/tracefleet/internal/job"
)

// bundle is what a page that stands alone carries.
type bundle struct {
	Result json.RawMessage `json:"result"`
	// Input is null when the job's input is not known; then the page has no source to show.
	Input *job.Job `json:"input"`
}

// SelfContained gives the view of r as one HTML file, which needs no server and
// no network. input is the job that r came from; without files it counts as unknown. The same arguments
// give the same bytes. It fails only when r cannot be encoded.
func SelfContained(r job.Result, input job.Job) ([]byte, error) {
	encoded, err := job.EncodeResult(r)
	if err != nil {
		return nil, err
	}
	b := bundle{Result: encoded}
	if len(input.Files) > 0 {
		b.Input = &input
	}
	data, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode page data: %w", err)
	}
	small, err := pack(data)
	if err != nil {
		return nil, err
	}
	style, err := built("app.css")
	if err != nil {
		return nil, err
	}
	script, err := built("app.js")
	if err != nil {
		return nil, err
	}
	p := page{
		Title: r.Headline, Style: style, Script: script,
		Policy: policyFor(style, script),
		Data:   base64.StdEncoding.EncodeToString(small),
	}
	if p.Title == "" {
		p.Title = pageTitle
	}
	return p.render()
}

// policyFor allows exactly one style and one script, and no request at all.
func policyFor(style, script string) string {
	return fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; connect-src 'none'; "+
		"base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'", source(script), source(style))
}

func source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
