package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/execra/tracefleet/internal/job"
)

// maxInputBytes bounds a compressed input. An input that does not compress at all fits.
const maxInputBytes = job.MaxDocumentBytes + job.MaxDocumentBytes/64

// zstdWindowBytes bounds the memory of each encoder; documents compress hardly
// worse than with the default of 8 MiB.
const zstdWindowBytes = 1 << 20

// plainBytes is up to which size a document is stored as it is: compressing saves half of it then, and takes longer than everything
// else that is done to store it. It begins with a brace, and what zstd makes does not.
const plainBytes = 1280

// codec compresses documents. It is safe for concurrent use. It starts no goroutine and holds nothing but memory, so
// it needs no end: closing a decoder while another call decodes is not safe.
type codec struct {
	enc *zstd.Encoder
	// streams are encoders for documents that are too large to have in memory.
	streams *sync.Pool
	// One decoder for each bound: a decoder refuses to write more than its
	// bound, so a small stored value cannot fill the memory.
	input  *zstd.Decoder
	result *zstd.Decoder
}

func newCodec() (codec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithWindowSize(zstdWindowBytes), zstd.WithEncoderConcurrency(2))
	if err != nil {
		return codec{}, fmt.Errorf("zstd encoder: %w", err)
	}
	input, err := newDecoder(job.MaxDocumentBytes)
	if err != nil {
		return codec{}, err
	}
	result, err := newDecoder(job.MaxResultBytes)
	if err != nil {
		return codec{}, err
	}
	return codec{enc: enc, streams: &sync.Pool{}, input: input, result: result}, nil
}

func newDecoder(maxBytes uint64) (*zstd.Decoder, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxBytes), zstd.WithDecoderConcurrency(2))
	if err != nil {
		return nil, fmt.Errorf("zstd decoder: %w", err)
	}
	return d, nil
}

func (c *codec) encodeInput(j job.Job) (blob []byte, size int64, err error) {
	doc, err := json.Marshal(j)
	if err != nil {
		return nil, 0, fmt.Errorf("encode input: %w", err)
	}
	if len(doc) > job.MaxDocumentBytes {
		return nil, 0, &TooLargeError{What: "input", Bytes: int64(len(doc)), MaxBytes: job.MaxDocumentBytes}
	}
	return c.compress(doc), int64(len(doc)), nil
}

// compress makes what is stored of a document.
func (c *codec) compress(doc []byte) []byte {
	if len(doc) <= plainBytes {
		return doc
	}
	return c.enc.EncodeAll(doc, nil)
}

// expand is the inverse of compress. by has the bound on what it returns.
func expand(by *zstd.Decoder, blob []byte) ([]byte, error) {
	if len(blob) <= plainBytes && bytes.HasPrefix(blob, []byte("{")) {
		return blob, nil
	}
	doc, err := by.DecodeAll(blob, nil)
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return doc, nil
}

func (c *codec) decodeInput(blob []byte) (job.Job, error) {
	doc, err := expand(c.input, blob)
	if err != nil {
		return job.Job{}, corrupt("input: %w", err)
	}
	j, err := job.DecodeBytes(doc, job.MaxLimits())
	if err != nil {
		return job.Job{}, corrupt("input: %w", err)
	}
	return j, nil
}

func (c *codec) encodeResult(r job.Result, maxBytes int64) ([]byte, error) {
	raw, stored, blob, err := c.pack(r, maxBytes)
	switch {
	case err != nil:
		return nil, err
	case raw > job.MaxResultBytes:
		return nil, &TooLargeError{What: "result", Bytes: raw, MaxBytes: job.MaxResultBytes}
	case stored > maxBytes:
		return nil, &TooLargeError{What: "result", Bytes: stored, MaxBytes: maxBytes, Compressed: true}
	}
	return blob, nil
}

// pack encodes and compresses a result, and returns how large it is before and after, and its first keep bytes. A
// result with long output is never in memory as a whole.
func (c *codec) pack(r job.Result, keep int64) (raw, stored int64, blob []byte, err error) {
	if !r.LongOutput() {
		doc, err := job.EncodeResult(r)
		if err != nil {
			return 0, 0, nil, err
		}
		blob = c.compress(doc)
		return int64(len(doc)), int64(len(blob)), blob, nil
	}
	enc, err := c.streaming()
	if err != nil {
		return 0, 0, nil, err
	}
	defer c.streams.Put(enc)
	out := &head{keep: keep}
	enc.Reset(out)
	in := &counter{w: enc}
	err = job.WriteResult(in, r)
	if cerr := enc.Close(); err == nil {
		err = cerr
	}
	return in.n, out.n, out.kept, err
}

// streaming returns an encoder that compresses as it is written to. It starts no goroutine.
func (c *codec) streaming() (*zstd.Encoder, error) {
	if enc, ok := c.streams.Get().(*zstd.Encoder); ok {
		return enc, nil
	}
	enc, err := zstd.NewWriter(nil, zstd.WithWindowSize(zstdWindowBytes), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("zstd encoder: %w", err)
	}
	return enc, nil
}

// counter counts what is written to w.
type counter struct {
	w io.Writer
	n int64
}

// Write writes to w.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// head keeps the first bytes and counts all of them.
type head struct {
	keep int64
	kept []byte
	n    int64
}

// Write never fails.
func (h *head) Write(p []byte) (int, error) {
	h.n += int64(len(p))
	h.kept = append(h.kept, p[:min(int64(len(p)), max(0, h.keep-int64(len(h.kept))))]...)
	return len(p), nil
}

func (c *codec) decodeResult(blob []byte) (job.Result, error) {
	doc, err := expand(c.result, blob)
	if err != nil {
		return job.Result{}, corrupt("result: %w", err)
	}
	r, err := job.DecodeResult(doc)
	if err != nil {
		return job.Result{}, corrupt("result: %w", err)
	}
	return r, nil
}

// errNoBlob means that the key is not there.
var errNoBlob = errors.New("no such value")

// readBlob reads a value of at most maxBytes; Redis is asked for the size
// before the value is sent.
func (l *Ledger) readBlob(ctx context.Context, key string, maxBytes int64) ([]byte, error) {
	got, err := readScript.Run(ctx, l.rdb, []string{key}, maxBytes).Slice()
	if err != nil {
		return nil, err
	}
	code, rest := codeOf(got)
	switch {
	case code == "missing":
		return nil, errNoBlob
	case code == "large":
		return nil, corrupt("a stored value has %s bytes, more than %d", text(rest, 0), maxBytes)
	default:
		return []byte(text(rest, 0)), nil
	}
}

// ResultSize is the size of r as a document, and compressed as in Redis. The caller that has to
// keep a result under job.MaxResultBytes and Config.MaxResultBytes measures with it.
func (l *Ledger) ResultSize(r job.Result) (raw, stored int64, err error) {
	raw, stored, _, err = l.codec.pack(r, 0)
	return raw, stored, err
}

// MaxResultBytes is the bound on a compressed result that this ledger keeps.
func (l *Ledger) MaxResultBytes() int64 { return l.cfg.MaxResultBytes }
