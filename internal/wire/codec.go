package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// HeaderSize is the size of a frame's type and length in bytes.
const HeaderSize = 5

// The errors of a malformed stream, beside io.ErrUnexpectedEOF for a frame
// that was cut short. After any of them the stream cannot be read further.
var (
	// ErrUnknownType means that a frame's type is none of this package's.
	ErrUnknownType = errors.New("unknown frame type")
	// ErrTooLarge means that a frame's payload is over its type's maximum.
	ErrTooLarge = errors.New("frame too large")
)

// Frame is one message.
type Frame struct {
	Type    Type
	Payload []byte
}

// growStep bounds how far the buffer runs ahead of the bytes that have
// arrived: a length is only a claim.
const growStep = 64 << 10

// Decoder reads frames from a stream. It is not safe for concurrent use.
type Decoder struct {
	r   io.Reader
	hdr [HeaderSize]byte
	buf []byte
	err error
}

// NewDecoder returns a Decoder that reads from r, with small reads for the
// headers: wrap r in a bufio.Reader where they cost.
func NewDecoder(r io.Reader) *Decoder { return &Decoder{r: r} }

// Next reads the next frame. Its payload is valid until the next call. At a
// clean end, between two frames, the error is io.EOF; a cut frame gives
// io.ErrUnexpectedEOF. Type and length are checked before any of the payload
// is read. Errors are final: every later call returns the same one.
func (d *Decoder) Next() (Frame, error) {
	if d.err != nil {
		return Frame{}, d.err
	}
	f, err := d.next()
	if err != nil {
		d.err = err
		return Frame{}, err
	}
	return f, nil
}

func (d *Decoder) next() (Frame, error) {
	if _, err := io.ReadFull(d.r, d.hdr[:]); err != nil {
		return Frame{}, err
	}
	t, size := Type(d.hdr[0]), binary.BigEndian.Uint32(d.hdr[1:])
	limit, ok := MaxPayload(t)
	if !ok {
		return Frame{}, fmt.Errorf("%w: %#02x", ErrUnknownType, byte(t))
	}
	if uint64(size) > uint64(limit) {
		return Frame{}, fmt.Errorf("%w: %d bytes in a %q frame, at most %d", ErrTooLarge, size, byte(t), limit)
	}
	if err := d.fill(int(size)); err != nil {
		return Frame{}, err
	}
	return Frame{Type: t, Payload: d.buf}, nil
}

// fill reads size bytes into d.buf.
func (d *Decoder) fill(size int) error {
	d.buf = d.buf[:0]
	for have := 0; have < size; have = len(d.buf) {
		step := min(size-have, growStep)
		if free := cap(d.buf) - have; free > step {
			step = min(size-have, free)
		}
		if have+step > cap(d.buf) {
			grown := make([]byte, have, min(size, max(have+step, 2*have)))
			copy(grown, d.buf)
			d.buf = grown
		}
		d.buf = d.buf[:have+step]
		if _, err := io.ReadFull(d.r, d.buf[have:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// WriteFrame writes one frame to w: small ones in a single Write, large ones
// in two. It refuses what a Decoder would refuse. Concurrent calls on the same
// w must be serialised by the caller.
func WriteFrame(w io.Writer, t Type, payload []byte) error {
	limit, ok := MaxPayload(t)
	if !ok {
		return fmt.Errorf("%w: %#02x", ErrUnknownType, byte(t))
	}
	if len(payload) > limit {
		return fmt.Errorf("%w: %d bytes in a %q frame, at most %d", ErrTooLarge, len(payload), byte(t), limit)
	}
	const small = 1 << 10
	head := make([]byte, HeaderSize, HeaderSize+small)
	head[0] = byte(t)
	binary.BigEndian.PutUint32(head[1:], uint32(len(payload)))
	if len(payload) <= small {
		head, payload = append(head, payload...), nil
	}
	if _, err := w.Write(head); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	if len(payload) == 0 {
		return nil
	}
	if _, err := w.Write(payload); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}
