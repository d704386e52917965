package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/sandbox/docker"
)

const (
	// maxBody is several times what the largest request of a worker has.
	maxBody = 256 << 10
	// askTimeout bounds the proxy's own questions to the engine.
	askTimeout = 20 * time.Second
)

// proxy answers the requests of workers.
type proxy struct {
	engine *docker.Engine
	fleet  string
	// version is how the paths of the one version of the API begin.
	version string
	dial    func(ctx context.Context) (net.Conn, error)
	client  *http.Client
	log     *zap.Logger
}

func newProxy(engine *docker.Engine, s settings, log *zap.Logger) *proxy {
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.engine)
	}
	return &proxy{
		engine: engine, fleet: s.config.Fleet, version: "/v" + engine.Facts().APIVersion, dial: dial, log: log,
		client: &http.Client{
			Transport: &http.Transport{
				DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
				MaxIdleConns:    16,
				IdleConnTimeout: time.Minute, DisableCompression: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// refusal is an answer that is not from the engine.
type refusal struct {
	status int
	reason string
}

// Error is the reason.
func (r *refusal) Error() string { return r.reason }

func forbid(format string, args ...any) error {
	return &refusal{http.StatusForbidden, fmt.Sprintf(format, args...)}
}

// call is a request as it goes to the engine.
type call struct {
	method, path string
	query        url.Values
	body         []byte
	// raw is true for a request that turns its connection into a stream.
	raw bool
}

// rule is one kind of request that workers make.
type rule struct {
	method string
	path   *regexp.Regexp // of the whole path, after the version
	// unversioned is for what is asked before the version is known.
	unversioned bool
	// build checks a request and builds the one that goes to the engine.
	build func(p *proxy, r *http.Request, match []string, body []byte) (call, error)
}

// rules is everything that is let through.
func rules() []rule {
	const id = `/containers/([a-zA-Z0-9_.-]{1,128})`
	compile := func(path string) *regexp.Regexp { return regexp.MustCompile(`^` + path + `$`) }
	return []rule{
		{http.MethodGet, compile(`/_ping`), true, plain},
		{http.MethodHead, compile(`/_ping`), true, plain},
		{http.MethodGet, compile(`/_ping`), false, plain},
		{http.MethodGet, compile(`/info`), false, plain},
		{http.MethodGet, compile(`/events`), false, events},
		{http.MethodGet, compile(`/images/([a-zA-Z0-9_.:/@-]{1,255})/json`), false, image},
		{http.MethodGet, compile(`/containers/json`), false, list},
		{http.MethodPost, compile(`/containers/create`), false, create},
		{http.MethodPost, compile(id + `(/attach)`), false, attach},
		{http.MethodPost, compile(id + `(/start)`), false, owned(nil)},
		{http.MethodPost, compile(id + `(/wait)`), false, owned(url.Values{"condition": {"next-exit"}})},
		{http.MethodPost, compile(id + `(/kill)`), false, owned(url.Values{"signal": {"KILL"}})},
		{http.MethodPost, compile(id + `(/update)`), false, update},
		{http.MethodGet, compile(id + `(/json)`), false, owned(nil)},
		{http.MethodDelete, compile(id + `()`), false, owned(url.Values{"force": {"1"}, "v": {"1"}})},
	}
}

// ServeHTTP lets a request through, or refuses it.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := p.vet(r)
	if err == nil {
		if c.raw {
			err = p.stream(w, r, c)
		} else {
			err = p.forward(w, r, c)
		}
	}
	if err == nil {
		return
	}
	no := &refusal{http.StatusBadGateway, "the engine does not answer"}
	if !errors.As(err, &no) {
		p.log.Warn("engine", zap.Error(err))
	} else if no.status != http.StatusNotFound { // a worker asks until what it removed is gone
		p.log.Warn("refused", zap.String("method", r.Method), zap.String("path", cut(r.URL.Path)), zap.String("reason", cut(no.reason)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(no.status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": "socketproxy: " + no.reason}) // whoever asked may be gone
}

func cut(text string) string {
	const most = 300
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// vet finds the rule for a request and has it build the engine's.
func (p *proxy) vet(r *http.Request) (call, error) {
	// What is escaped is refused: nothing that a worker sends is.
	if r.URL.RawPath != "" || r.URL.Path != r.URL.EscapedPath() {
		return call{}, forbid("the path is escaped")
	}
	// One version of the API, that of this proxy's own client: another may give a body another meaning.
	rest, versioned := strings.CutPrefix(r.URL.Path, p.version)
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return call{}, &refusal{http.StatusBadRequest, "the body could not be read"}
	}
	if len(body) > maxBody {
		return call{}, &refusal{http.StatusRequestEntityTooLarge, "the body is too large"}
	}
	for _, rule := range rules() {
		match := rule.path.FindStringSubmatch(rest)
		if match == nil || rule.method != r.Method || rule.unversioned == versioned {
			continue
		}
		c, err := rule.build(p, r, match, body)
		if err != nil {
			return call{}, err
		}
		c.method = rule.method
		if versioned {
			c.path = p.version + c.path
		}
		return c, nil
	}
	return call{}, forbid("no worker asks for this")
}

// forward sends a call and copies the answer.
func (p *proxy) forward(w http.ResponseWriter, r *http.Request, c call) error {
	resp, err := p.send(r.Context(), c)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was read as far as it goes
	for _, name := range []string{"Content-Type", "Api-Version", "Ostype", "Server", "Docker-Experimental", "Builder-Version", "Swarm"} {
		if value := resp.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(resp.StatusCode)
	// An answer may come in parts, long after its beginning.
	flush := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	_ = flush.Flush()
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return nil // whoever asked is gone
			}
			_ = flush.Flush()
		}
		if err != nil {
			return nil // the answer has begun, and ends with the engine's
		}
	}
}

func (p *proxy) send(ctx context.Context, c call) (*http.Response, error) {
	r, err := newRequest(ctx, c)
	if err != nil {
		return nil, err
	}
	return p.client.Do(r)
}

// resolve asks the engine whether a container is one of the fleet's, and returns
// the path of the container by its id, which nothing else ever gets.
func (p *proxy) resolve(ctx context.Context, name string) (path string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	resp, err := p.send(ctx, call{method: http.MethodGet, path: p.version + "/containers/" + name + "/json"})
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	var found struct {
		ID     string `json:"Id"`
		Config struct{ Labels map[string]string }
	}
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return "", &refusal{http.StatusNotFound, "no such container"}
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("inspect: %s", resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 4<<20)).Decode(&found); err != nil {
		return "", fmt.Errorf("inspect: %w", err)
	}
	if found.ID == "" || !p.engine.Owns(found.Config.Labels) {
		return "", forbid("the container is not one of fleet %s", p.fleet)
	}
	return "/containers/" + found.ID, nil
}
