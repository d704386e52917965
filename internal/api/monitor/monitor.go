// Package monitor serves asynqmon, the web interface of the queue, with what it lacks:
// a payload formatter that shows our envelope and nothing else, bounds, and headers.
package monitor

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hibiken/asynqmon"

	"github.com/execra/tracefleet/internal/queue"
)

// Path is where the monitor is served, and the root of all its pages.
const Path = "/monitoring"

// maxRows is how many tasks are listed at one time: what the interface offers at most. asynqmon itself reads as many into memory as
// it is asked for.
const maxRows = 100

// maxShownBytes bounds what is shown of one payload or result.
const maxShownBytes = 4096

// connection gives asynqmon the Redis client of the process.
type connection struct{ client any }

// MakeRedisClient returns the client; asynqmon calls it more than once.
func (c connection) MakeRedisClient() any { return c.client }

// Monitor serves asynqmon, for those who may only look and for those who may act.
// It is safe for concurrent use.
type Monitor struct {
	look, act screen
	csp       string
}

// screen is asynqmon with one set of rights, and its only page.
type screen struct {
	handler http.Handler
	page    []byte
}

// New returns a Monitor over a Redis client, a *redis.Client or *redis.ClusterClient, which
// stays the caller's to close.
func New(client any) (*Monitor, error) {
	m := &Monitor{}
	hashes := map[string]bool{}
	var scripts []string
	for _, target := range []struct {
		to       *screen
		readOnly bool
	}{{&m.look, true}, {&m.act, false}} {
		h := handler(client, target.readOnly)
		html, err := render(h)
		if err != nil {
			return nil, fmt.Errorf("monitor: %w", err)
		}
		*target.to = screen{handler: h, page: foreignStyle.ReplaceAll(html, nil)}
		for _, script := range inlineScript.FindAllSubmatch(html, -1) {
			sum := sha256.Sum256(script[1])
			hash := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
			if !hashes[hash] {
				hashes[hash] = true
				scripts = append(scripts, hash)
			}
		}
	}
	// The scripts of the page are allowed by hash. The interface adds style elements while it runs, which have no fixed hash.
	m.csp = "default-src 'none'; script-src 'self' " + strings.Join(scripts, " ") + "; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
		"connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return m, nil
}

func handler(client any, readOnly bool) *asynqmon.HTTPHandler {
	return asynqmon.New(asynqmon.Options{
		RootPath: Path, RedisConnOpt: connection{client}, ReadOnly: readOnly,
		PayloadFormatter: asynqmon.PayloadFormatterFunc(func(_ string, payload []byte) string { return FormatPayload(payload) }),
		ResultFormatter:  asynqmon.ResultFormatterFunc(func(_ string, result []byte) string { return FormatResult(result) }),
	})
}

// Handler returns the handler for those who may act, or only look.
func (m *Monitor) Handler(mayAct bool) http.Handler {
	s := m.look
	if mayAct {
		s = m.act
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", m.csp)
		rest := strings.TrimPrefix(r.URL.Path, Path)
		if r.Method == http.MethodGet && !strings.HasPrefix(rest, "/api/") && path.Ext(rest) == "" {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write(s.page) // The client may have gone.
			return
		}
		s.handler.ServeHTTP(w, bounded(r))
	})
}

// bounded returns a request that asks for maxRows at most.
func bounded(r *http.Request) *http.Request {
	query := r.URL.Query()
	rows, err := strconv.Atoi(query.Get("size"))
	if !query.Has("size") || err == nil && rows >= 0 && rows <= maxRows {
		return r
	}
	query.Set("size", strconv.Itoa(maxRows))
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	return r
}

var (
	inlineScript = regexp.MustCompile(`(?s)<script>(.*?)</script>`)
	// foreignStyle are the style sheets that the page asks another site for, its fonts, where system fonts
	// do; and the manifest, which browsers ask for without the session.
	foreignStyle = regexp.MustCompile(`<link rel="(stylesheet" href="https://|manifest" href=")[^"]*"/?>`)
)

// page takes down what a handler writes.
type page struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header returns the headers.
func (p *page) Header() http.Header { return p.header }

// WriteHeader takes down the status.
func (p *page) WriteHeader(code int) { p.code = code }

// Write takes down a part of the body.
func (p *page) Write(b []byte) (int, error) { return p.body.Write(b) }

// render returns the start page of a handler.
func render(h http.Handler) ([]byte, error) {
	r, err := http.NewRequest(http.MethodGet, Path+"/", nil)
	if err != nil {
		return nil, err
	}
	p := page{header: http.Header{}, code: http.StatusOK}
	h.ServeHTTP(&p, r)
	if p.code != http.StatusOK {
		return nil, fmt.Errorf("its page answers %d", p.code)
	}
	return p.body.Bytes(), nil
}

// FormatPayload shows the payload of a task: our envelope, and of anything else only its size.
func FormatPayload(payload []byte) string {
	e, err := queue.DecodeEnvelope(payload)
	if err != nil {
		return fmt.Sprintf("%d bytes that are not a Tracefleet envelope", len(payload))
	}
	return show(e)
}

// FormatResult shows the short result that a worker leaves in the queue. Its headline may quote an
// exception's message, never output or source.
func FormatResult(result []byte) string {
	if len(result) == 0 {
		return ""
	}
	var report queue.Report
	if len(result) > 4*maxShownBytes || json.Unmarshal(result, &report) != nil {
		return fmt.Sprintf("%d bytes that are not a Tracefleet result", len(result))
	}
	return show(report)
}

func show(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "it cannot be shown"
	}
	return printable(strings.TrimSuffix(b.String(), "\n"))
}

// printable keeps a text on one line and within its bound.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
	if len(s) <= maxShownBytes {
		return s
	}
	end := maxShownBytes - len("…")
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
