package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	// compressFrom is the size from which an answer is compressed: less fits a packet anyway.
	compressFrom = 1400
	// browserWindow keeps the memory of decoders small; browsers refuse more than 8 MiB.
	browserWindow = 1 << 20
)

// packer compresses answers. It is safe for concurrent use and owns no goroutine.
type packer struct {
	zstd *zstd.Encoder
	gzip sync.Pool
}

func newPacker() (*packer, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithWindowSize(browserWindow), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	if err != nil {
		return nil, fmt.Errorf("compress answers: %w", err)
	}
	return &packer{zstd: enc, gzip: sync.Pool{New: func() any { return gzip.NewWriter(nil) }}}, nil
}

// pack compresses body in the way that the client takes, if any.
func (p *packer) pack(accept string, body []byte) (packed []byte, encoding string) {
	if len(body) < compressFrom {
		return body, ""
	}
	switch encoding := negotiate(accept); encoding {
	case "zstd":
		return p.zstd.EncodeAll(body, make([]byte, 0, len(body)/4)), encoding
	case "gzip":
		var b bytes.Buffer
		w, _ := p.gzip.Get().(*gzip.Writer)
		defer p.gzip.Put(w)
		w.Reset(&b)
		_, _ = w.Write(body) // A buffer takes everything.
		_ = w.Close()
		return b.Bytes(), encoding
	}
	return body, ""
}

// negotiate chooses among the encodings of an Accept-Encoding header: zstd before gzip when both are
// welcome; a quality of 0 excludes.
func negotiate(accept string) string {
	quality := map[string]float64{}
	for part := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(part, ";")
		q := 1.0
		if text, ok := strings.CutPrefix(strings.TrimSpace(params), "q="); ok {
			parsed, err := strconv.ParseFloat(text, 64)
			if err != nil {
				continue
			}
			q = parsed
		}
		quality[strings.ToLower(strings.TrimSpace(name))] = q
	}
	best, most := "", 0.0
	for _, name := range []string{"zstd", "gzip"} {
		q, ok := quality[name]
		if !ok {
			q = quality["*"]
		}
		if q > most {
			best, most = name, q
		}
	}
	return best
}

// encode writes v as JSON on one line; what is in strings stays readable.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return b.Bytes(), nil
}

// answer writes a JSON document.
func (a *API) answer(w http.ResponseWriter, r *http.Request, status int, v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	a.write(w, r, status, "application/json", body)
	return nil
}

// write sends a body, compressed if the client likes.
func (a *API) write(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	body, encoding := a.packer.pack(r.Header.Get("Accept-Encoding"), body)
	send(w, status, contentType, body, encoding)
}

// send sends a body that is packed already.
func send(w http.ResponseWriter, status int, contentType string, body []byte, encoding string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Add("Vary", "Accept-Encoding")
	if encoding != "" {
		h.Set("Content-Encoding", encoding)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // The client may have gone.
}

// fixed is a document that is the same for everybody, packed once: strangers may ask for it, as often as they like.
type fixed struct {
	contentType string
	// bodies are by encoding; "" is as it is.
	bodies map[string][]byte
}

func (p *packer) fix(contentType string, body []byte) fixed {
	f := fixed{contentType: contentType, bodies: map[string][]byte{"": body}}
	for _, accept := range []string{"zstd", "gzip"} {
		packed, encoding := p.pack(accept, body)
		f.bodies[encoding] = packed
	}
	return f
}

func (f fixed) send(w http.ResponseWriter, r *http.Request, status int) {
	encoding := negotiate(r.Header.Get("Accept-Encoding"))
	body, ok := f.bodies[encoding]
	if !ok {
		body, encoding = f.bodies[""], ""
	}
	send(w, status, f.contentType, body, encoding)
}
