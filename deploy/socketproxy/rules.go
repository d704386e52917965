package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/execra/tracefleet/internal/sandbox/docker"
)

// only refuses a request with other parameters than those of want. A parameter
// may be given once.
func only(r *http.Request, want url.Values) error {
	got, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return forbid("the parameters cannot be read")
	}
	if len(got) == 0 && len(want) == 0 || reflect.DeepEqual(got, want) {
		return nil
	}
	return forbid("the parameters are not those of a worker")
}

// bare refuses a request with a body.
func bare(body []byte) error {
	if len(bytes.TrimSpace(body)) > 0 {
		return forbid("no worker sends a body with this")
	}
	return nil
}

// plain is for requests that take nothing and tell nothing secret.
func plain(_ *proxy, r *http.Request, match []string, body []byte) (call, error) {
	return call{path: match[0]}, errors.Join(only(r, nil), bare(body))
}

// events is for the engine's own events, and for what it has told of kills for memory in one container of the fleet.
func events(p *proxy, r *http.Request, match []string, body []byte) (call, error) {
	if r.URL.Query().Has("until") {
		return memoryEvents(p, r, match, body)
	}
	want := url.Values{"filters": {`{"type":{"daemon":true}}`}}
	return call{path: match[0], query: want}, errors.Join(only(r, want), bare(body))
}

// memoryFilter is how a worker asks for them.
var memoryFilter = regexp.MustCompile(`^\{"container":\{"([0-9a-f]{64})":true\},"event":\{"oom":true\}\}$`)

func memoryEvents(p *proxy, r *http.Request, match []string, body []byte) (call, error) {
	filter, until := r.URL.Query().Get("filters"), r.URL.Query().Get("until")
	want := url.Values{"since": {"0"}, "until": {until}, "filters": {filter}}
	if err := errors.Join(only(r, want), bare(body)); err != nil {
		return call{}, err
	}
	asked := memoryFilter.FindStringSubmatch(filter)
	if asked == nil || until == "" || strings.Trim(until, "0123456789.") != "" {
		return call{}, forbid("the events are not those that a worker asks for")
	}
	_, err := p.resolve(r.Context(), asked[1])
	return call{path: match[0], query: want}, err
}

// image is for the one image that sandboxes have.
func image(p *proxy, r *http.Request, match []string, body []byte) (call, error) {
	f := p.engine.Facts()
	if match[1] != f.Image && match[1] != f.ImageID {
		return call{}, forbid("the image is not the fleet's")
	}
	return call{path: match[0]}, errors.Join(only(r, nil), bare(body))
}

// list is for the containers of the fleet.
func list(p *proxy, r *http.Request, match []string, body []byte) (call, error) {
	filter, err := json.Marshal(map[string]map[string]bool{"label": {docker.LabelFleet + "=" + p.fleet: true}})
	if err != nil {
		return call{}, err
	}
	want := url.Values{"all": {"1"}, "filters": {string(filter)}}
	return call{path: match[0], query: want}, errors.Join(only(r, want), bare(body))
}

// create is for sandboxes as a worker of the fleet makes them.
func create(p *proxy, r *http.Request, match []string, body []byte) (call, error) {
	name := r.URL.Query().Get("name")
	query := url.Values{"name": {name}}
	if err := only(r, query); err != nil {
		return call{}, err
	}
	built, err := p.engine.VetCreate(name, body, time.Now())
	if err != nil {
		return call{}, forbid("%v", err)
	}
	return call{path: match[0], query: query, body: built}, nil
}

// update is for the limits of a sandbox that waits for its job.
func update(p *proxy, r *http.Request, match []string, body []byte) (call, error) {
	if err := only(r, nil); err != nil {
		return call{}, err
	}
	built, err := p.engine.VetUpdate(body)
	if err != nil {
		return call{}, forbid("%v", err)
	}
	path, err := p.resolve(r.Context(), match[1])
	return call{path: path + match[2], body: built}, err
}

// attach is for the streams of a sandbox.
func attach(p *proxy, r *http.Request, match []string, body []byte) (call, error) {
	c, err := owned(url.Values{"stream": {"1"}, "stdin": {"1"}, "stdout": {"1"}, "stderr": {"1"}})(p, r, match, body)
	c.raw = true
	return c, err
}

// owned is for requests about a container of the fleet, with these parameters.
func owned(want url.Values) func(*proxy, *http.Request, []string, []byte) (call, error) {
	return func(p *proxy, r *http.Request, match []string, body []byte) (call, error) {
		if err := errors.Join(only(r, want), bare(body)); err != nil {
			return call{}, err
		}
		path, err := p.resolve(r.Context(), match[1])
		return call{path: path + match[2], query: want}, err
	}
}

// newRequest makes the request for a call. The host's name means nothing to an engine.
func newRequest(ctx context.Context, c call) (*http.Request, error) {
	u := url.URL{Scheme: "http", Host: "engine", Path: c.path, RawQuery: c.query.Encode()}
	r, err := http.NewRequestWithContext(ctx, c.method, u.String(), bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	if len(c.body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}
