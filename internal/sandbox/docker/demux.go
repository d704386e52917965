package docker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The streams that an engine multiplexes on an attached connection, each chunk
// behind a header of eight bytes: stream, three zeros, length.
const (
	streamStdout = 1
	streamStderr = 2
	streamEngine = 3 // an error of the engine itself
)

const demuxHeader = 8

// maxStderr is how much of PID 1's own stderr is kept: a supervisor that works
// writes nothing there.
const maxStderr = 4 << 10

// errEngineStream means that the engine broke the stream off and said why.
var errEngineStream = errors.New("the engine ended the stream")

// errBadStream means that a stream is not in the engine's format.
var errBadStream = errors.New("not an engine's stream")

// demux reads PID 1's stdout out of an attached connection. Its memory does not
// depend on what arrives: lengths are only counted down. It is not safe for
// concurrent use.
type demux struct {
	r      *bufio.Reader
	left   uint32 // of the current chunk of stdout
	stderr []byte // the head of PID 1's stderr
}

func newDemux(r *bufio.Reader) *demux { return &demux{r: r} }

// Read reads from PID 1's stdout. The end of the connection between two chunks
// is io.EOF, elsewhere io.ErrUnexpectedEOF.
func (d *demux) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for d.left == 0 {
		if err := d.next(); err != nil {
			return 0, err
		}
	}
	n, err := d.r.Read(p[:min(len(p), int(d.left))])
	d.left -= uint32(n)
	if errors.Is(err, io.EOF) && d.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	if n > 0 {
		return n, nil // a lasting error shows at the next read
	}
	return n, err
}

// pending returns how many bytes of PID 1's stdout are known to be there
// unread, as far as can be told without waiting.
func (d *demux) pending() int {
	if d.left > 0 {
		return int(d.left)
	}
	header, err := d.r.Peek(min(demuxHeader, d.r.Buffered()))
	if err != nil || len(header) < demuxHeader || header[0] != streamStdout {
		return 0
	}
	return int(binary.BigEndian.Uint32(header[4:]))
}

// next reads up to the next chunk of stdout.
func (d *demux) next() error {
	var header [demuxHeader]byte
	if _, err := io.ReadFull(d.r, header[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(header[4:])
	switch header[0] {
	case streamStdout:
		d.left = size
		return nil
	case streamStderr:
		return d.skip(size, &d.stderr)
	case streamEngine:
		var text []byte
		if err := d.skip(size, &text); err != nil {
			return err
		}
		return fmt.Errorf("%w: %q", errEngineStream, text)
	default:
		return fmt.Errorf("%w: stream %d", errBadStream, header[0])
	}
}

// skip passes over size bytes and keeps the first of them in kept.
func (d *demux) skip(size uint32, kept *[]byte) error {
	room := min(int64(size), int64(maxStderr-len(*kept)))
	head := make([]byte, room)
	n, err := io.ReadFull(d.r, head)
	*kept = append(*kept, head[:n]...)
	if err == nil {
		_, err = io.CopyN(io.Discard, d.r, int64(size)-room)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
