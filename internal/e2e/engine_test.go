package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/execra/tracefleet/internal/sandbox/docker"
)

// engine asks the Docker Engine what it has, without any code of the fleet:
// what left something behind must not also be the one to look for it.
type engine struct {
	http *http.Client
	base string
}

// openEngine uses DOCKER_HOST, or the local default socket.
func openEngine() *engine {
	host := os.Getenv("DOCKER_HOST")
	if host == "" {
		host = "unix:///var/run/docker.sock"
	}
	scheme, address, _ := strings.Cut(host, "://")
	if scheme != "unix" {
		return &engine{http: &http.Client{}, base: "http://" + address}
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", address)
	}
	// A connection for each question: an idle one would count as a leak.
	return &engine{http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}, base: "http://engine"}
}

// get asks for a path and decodes the answer unless into is nil.
func (e *engine) get(ctx context.Context, path string, into any) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+path, nil)
	if err != nil {
		return 0, err
	}
	answer, err := e.http.Do(request)
	if err != nil {
		return 0, fmt.Errorf("ask the engine: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 16<<20))
	if err != nil || into == nil {
		return answer.StatusCode, err
	}
	if answer.StatusCode != http.StatusOK {
		return answer.StatusCode, fmt.Errorf("engine: GET %s: %s", path, answer.Status)
	}
	return answer.StatusCode, json.Unmarshal(body, into)
}

func (e *engine) hasImage(ctx context.Context, name string) (bool, error) {
	status, err := e.get(ctx, "/images/"+name+"/json", nil)
	return status == http.StatusOK, err
}

// container is one container of the engine, in whatever state.
type container struct {
	ID     string            `json:"Id"`
	State  string            `json:"State"`
	Labels map[string]string `json:"Labels"`
}

// containers lists all containers of a fleet, dead ones too.
func (e *engine) containers(ctx context.Context, fleet string) ([]container, error) {
	filter, err := json.Marshal(map[string][]string{"label": {docker.LabelFleet + "=" + fleet}})
	if err != nil {
		return nil, err
	}
	var found []container
	_, err = e.get(ctx, "/containers/json?all=1&filters="+url.QueryEscape(string(filter)), &found)
	return found, err
}
