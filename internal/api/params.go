package api

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execra/tracefleet/internal/job"
)

// param is a parameter of an operation, as the router checks it and the document shows it.
type param struct {
	name string
	in   string // query, header or path
	doc  string
	// enum lists the values allowed; nil is any.
	enum []string
	kind string // string, integer or boolean
	max  int
	// pattern is for the document; the handler checks what it stands for.
	pattern, example string
	required         bool
}

// knownQuery refuses query parameters that the operation does not have: a misspelt one would
// otherwise be ignored without a word.
func (o *operation) knownQuery(query url.Values) error {
	for name, values := range query {
		i := slices.IndexFunc(o.params, func(p param) bool { return p.in == "query" && p.name == name })
		switch {
		case i < 0:
			return invalid("query."+clip(name), "is not a parameter of this operation")
		case len(values) > 1:
			return invalid("query."+name, "is given more than once")
		case len(o.params[i].enum) > 0 && !slices.Contains(o.params[i].enum, values[0]):
			return invalid("query."+name, "must be one of "+strings.Join(o.params[i].enum, ", "))
		}
	}
	return nil
}

// clip keeps a name from outside short and printable in a message.
func clip(name string) string {
	name = strings.Trim(strconv.QuoteToASCII(name), `"`)
	if len(name) > 40 {
		name = name[:40] + "..."
	}
	return name
}

// parseWait reads how long a request may wait: ?wait=25s or 25, or Prefer: wait=25. More than
// MaxWait is cut down to it. preferred tells that the header said so.
func parseWait(r *http.Request) (d time.Duration, preferred bool, err error) {
	if text := r.URL.Query().Get("wait"); text != "" {
		d, err := seconds(text)
		if err != nil {
			return 0, false, invalid("query.wait", "must be seconds, such as 25 or 25s, up to "+MaxWait.String())
		}
		return min(d, MaxWait), false, nil
	}
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Prefer"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		if value == "" {
			return MaxWait, true, nil
		}
		d, err := seconds(strings.Trim(value, `"`))
		if err != nil {
			return 0, false, nil // RFC 7240: a preference that cannot be met is ignored
		}
		return min(d, MaxWait), true, nil
	}
	return 0, false, nil
}

func seconds(text string) (time.Duration, error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		if !(n >= 0 && n <= 1e6) {
			return 0, fmt.Errorf("out of range")
		}
		return time.Duration(n * float64(time.Second)), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("not a time")
	}
	return d, nil
}

// parseLimit reads the parameter limit.
func parseLimit(r *http.Request, most int) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return min(50, most), nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, invalid("query.limit", fmt.Sprintf("must be a number from 1 to %d", most))
	}
	return n, nil
}

// parseTime reads a parameter that is a time of RFC 3339.
func parseTime(r *http.Request, name string) (time.Time, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, invalid("query."+name, "must be a time such as 2026-11-30T12:00:00Z")
	}
	return t, nil
}

// pathID is the id in the path. One that cannot be an id is not looked up.
func pathID(r *http.Request) (string, error) {
	id := r.PathValue("id")
	if !job.ValidID(id) {
		return "", notFound("trace")
	}
	return id, nil
}

// media checks the type of the body, and that it is not compressed.
func media(r *http.Request, want string) error {
	got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || got != want {
		return problem(http.StatusUnsupportedMediaType, "media-type", "Unsupported media type", "The body must be sent as Content-Type: %s.", want)
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return problem(http.StatusUnsupportedMediaType, "media-type", "Unsupported media type", "The body must not be compressed.")
	}
	return nil
}
