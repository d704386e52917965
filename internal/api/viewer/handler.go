package viewer

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strings"
)

// Policy is the Content-Security-Policy of the served pages.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// pageTitle is what a served page is called before its script names it.
const pageTitle = "Tracefleet"

// asset is one file as it is served.
type asset struct {
	kind         string
	plain, small []byte
	tag          string
	// forever is true for a file whose name changes with its content.
	forever bool
}

// Handler serves the pages: / for a new program, /traces/{id} for a run, and
// /assets/ for what they load. Paths of other forms are not found. The pages are the same for
// everybody and hold no data; what they show they ask of /api/v1. The handler is safe for concurrent use.
// It fails only when the built files are damaged, which a test rules out.
func Handler() (http.Handler, error) {
	assets := map[string]asset{}
	add := func(name, kind, text string) (string, error) {
		sum := sha256.Sum256([]byte(text))
		named := strings.TrimSuffix(name, path.Ext(name)) + "-" + hex.EncodeToString(sum[:6]) + path.Ext(name)
		a, err := newAsset(kind, []byte(text))
		a.forever = true
		assets["/assets/"+named] = a
		return named, err
	}
	p := page{Title: pageTitle}
	for _, file := range []struct {
		name, kind string
		to         *string
	}{
		{"app.js", "text/javascript; charset=utf-8", &p.ScriptName},
		{"app.css", "text/css; charset=utf-8", &p.StyleName},
	} {
		text, err := built(file.name)
		if err != nil {
			return nil, err
		}
		if *file.to, err = add(file.name, file.kind, text); err != nil {
			return nil, err
		}
	}
	text, err := p.render()
	if err != nil {
		return nil, err
	}
	index, err := newAsset("text/html; charset=utf-8", text)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := assets[r.URL.Path]
		if isPage(r.URL.Path) {
			a, ok = index, true
		}
		switch {
		case !ok:
			http.NotFound(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		default:
			a.serve(w, r)
		}
	}), nil
}

// isPage tells whether the path is one of a page: / or /traces/{id}.
func isPage(p string) bool {
	id, ok := strings.CutPrefix(p, "/traces/")
	return p == "/" || ok && id != "" && !strings.Contains(id, "/")
}

func newAsset(kind string, plain []byte) (asset, error) {
	small, err := pack(plain)
	sum := sha256.Sum256(plain)
	return asset{kind: kind, plain: plain, small: small, tag: `"` + hex.EncodeToString(sum[:12]) + `"`}, err
}

// pack compresses data with gzip, the same way every time.
func pack(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if _, err := w.Write(data); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return out.Bytes(), nil
}

func (a asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", a.tag)
	h.Set("Cache-Control", "no-cache")
	if a.forever {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if strings.Contains(r.Header.Get("If-None-Match"), a.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", a.kind)
	body := a.plain
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = a.small
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(body) // The reader has gone; there is nobody to tell.
}

// acceptsGzip tells whether the client takes gzip; who says so with a weight of
// zero gets the plain file.
func acceptsGzip(r *http.Request) bool {
	for _, coding := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, weighted := strings.Cut(strings.TrimSpace(coding), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			value := strings.TrimPrefix(strings.TrimSpace(weight), "q=")
			return !weighted || strings.Trim(value, "0.") != ""
		}
	}
	return false
}
