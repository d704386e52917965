package wire_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/execra/tracefleet/internal/wire"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	frames := []wire.Frame{
		{Type: wire.Ready, Payload: []byte(`{"v":1}`)},
		{Type: wire.Job, Payload: bytes.Repeat([]byte("j"), 8<<20)},
		{Type: wire.Stdout, Payload: []byte{}},
		{Type: wire.Stderr, Payload: bytes.Repeat([]byte("e"), wire.MaxChunk)},
		{Type: wire.Trace, Payload: []byte{wire.AreaDefs, 0, 255}},
		{Type: wire.Fail, Payload: bytes.Repeat([]byte("f"), 16<<10)},
		{Type: wire.End, Payload: []byte("{}")},
	}
	var stream bytes.Buffer
	for _, f := range frames {
		if err := wire.WriteFrame(&stream, f.Type, f.Payload); err != nil {
			t.Fatalf("WriteFrame(%c): %v", f.Type, err)
		}
	}
	readers := map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "halves": iotest.HalfReader, "data with EOF": iotest.DataErrReader,
	}
	for name, wrap := range readers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := wire.NewDecoder(wrap(bytes.NewReader(stream.Bytes())))
			for i, want := range frames {
				got, err := d.Next()
				if err != nil {
					t.Fatalf("frame %d: %v", i, err)
				}
				if got.Type != want.Type || !bytes.Equal(got.Payload, want.Payload) {
					t.Fatalf("frame %d: got %c with %d bytes, want %c with %d", i, got.Type, len(got.Payload), want.Type, len(want.Payload))
				}
			}
			for range 2 {
				if _, err := d.Next(); err != io.EOF {
					t.Fatalf("after the last frame: got %v, want io.EOF", err)
				}
			}
		})
	}
}

func TestDecoderRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		stream string
		want   error
	}{
		"nothing":               {"", io.EOF},
		"half a header":         {"O\x00\x00", io.ErrUnexpectedEOF},
		"no payload":            {"O\x00\x00\x00\x05", io.ErrUnexpectedEOF},
		"half a payload":        {"O\x00\x00\x00\x05ab", io.ErrUnexpectedEOF},
		"unknown type":          {"Q\x00\x00\x00\x00", wire.ErrUnknownType},
		"type zero":             {"\x00\x00\x00\x00\x00", wire.ErrUnknownType},
		"chunk over the limit":  {"O\x00\x01\x00\x01", wire.ErrTooLarge},
		"end over the limit":    {"Z\x00\x00\x40\x01", wire.ErrTooLarge},
		"job over the limit":    {"J\x00\x80\x00\x01", wire.ErrTooLarge},
		"largest length":        {"T\xff\xff\xff\xff", wire.ErrTooLarge},
		"unknown beats too big": {"?\xff\xff\xff\xff", wire.ErrUnknownType},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := wire.NewDecoder(bytes.NewReader([]byte(tt.stream)))
			_, err := d.Next()
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if _, again := d.Next(); again != err {
				t.Fatalf("the error is not final: got %v, then %v", err, again)
			}
		})
	}
}

// TestDecoderKeepsReaderError makes sure that a broken connection is not taken
// for the end of the stream.
func TestDecoderKeepsReaderError(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	for name, before := range map[string]string{"between frames": "", "in a header": "O\x00", "in a payload": "O\x00\x00\x00\x05ab"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := wire.NewDecoder(io.MultiReader(bytes.NewReader([]byte(before)), iotest.ErrReader(broken)))
			if _, err := d.Next(); !errors.Is(err, broken) {
				t.Fatalf("got %v, want %v", err, broken)
			}
		})
	}
}

// askReader records the largest read it was asked for.
type askReader struct {
	r       io.Reader
	largest int
}

func (a *askReader) Read(p []byte) (int, error) {
	a.largest = max(a.largest, len(p))
	return a.r.Read(p)
}

// TestDecoderMemoryFollowsData checks that a claimed length alone reserves little.
func TestDecoderMemoryFollowsData(t *testing.T) {
	t.Parallel()
	r := &askReader{r: bytes.NewReader([]byte("J\x00\x80\x00\x00only this"))}
	if _, err := wire.NewDecoder(r).Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("got %v, want %v", err, io.ErrUnexpectedEOF)
	}
	if limit := 64 << 10; r.largest > limit {
		t.Errorf("a claim of 8 MiB with 9 bytes behind it reserved %d bytes, want at most %d", r.largest, limit)
	}
}

func TestWriteFrameRefuses(t *testing.T) {
	t.Parallel()
	var w bytes.Buffer
	if err := wire.WriteFrame(&w, 'Q', nil); !errors.Is(err, wire.ErrUnknownType) {
		t.Errorf("unknown type: got %v", err)
	}
	if err := wire.WriteFrame(&w, wire.Stdout, make([]byte, wire.MaxChunk+1)); !errors.Is(err, wire.ErrTooLarge) {
		t.Errorf("too large: got %v", err)
	}
	if w.Len() != 0 {
		t.Errorf("refused frames wrote %d bytes", w.Len())
	}
}

// FuzzDecoder feeds arbitrary bytes: what decodes must encode to the same bytes, within the limits.
func FuzzDecoder(f *testing.F) {
	for _, seed := range []string{"", "R\x00\x00\x00\x07{\"v\":1}O\x00\x00\x00\x02hi", "Z\x00\x00\x00\x02{}", "O\x00\x00\x00\x05ab", "J\xff\xff\xff\xff", "TTTTT"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		d := wire.NewDecoder(bytes.NewReader(stream))
		var again bytes.Buffer
		for {
			frame, err := d.Next()
			if err != nil {
				if err == io.EOF && again.Len() != len(stream) {
					t.Fatalf("a clean end after %d of %d bytes", again.Len(), len(stream))
				}
				break
			}
			if limit, ok := wire.MaxPayload(frame.Type); !ok || len(frame.Payload) > limit {
				t.Fatalf("accepted a %q frame of %d bytes", byte(frame.Type), len(frame.Payload))
			}
			if err := wire.WriteFrame(&again, frame.Type, frame.Payload); err != nil {
				t.Fatalf("WriteFrame: %v", err)
			}
		}
		if !bytes.Equal(stream[:again.Len()], again.Bytes()) {
			t.Fatalf("decoding and encoding changed the bytes: got %q, want %q", again.Bytes(), stream[:again.Len()])
		}
	})
}
