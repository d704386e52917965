//go:build linux

package main

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/execra/tracefleet/internal/wire"
)

// coalesce is how long a relay waits for more before it sends a small chunk.
// The end of the stream ends the wait, so a killed program's last lines do not.
const coalesce = 2 * time.Millisecond

// relay passes one stream of the program on in frames, up to a cap, and counts
// and discards what comes after it.
type relay struct {
	kind  wire.Type
	name  string
	buf   []byte
	limit int64
	total int64
	// filled is how much of buf the last read filled.
	filled int
	// done is closed when the stream has ended; total may be read then.
	done chan struct{}
}

// newRelay makes a relay with its buffer in place, so that nothing is left to
// allocate when memory is short.
func newRelay(kind wire.Type, name string) *relay {
	r := &relay{kind: kind, name: name, buf: make([]byte, wire.MaxChunk), done: make(chan struct{})}
	for i := 0; i < len(r.buf); i += 4096 {
		r.buf[i] = 1 // touch the page
	}
	return r
}

// over tells whether the program wrote more than its cap; valid when done is closed.
func (r *relay) over() bool { return r.total > r.limit }

// last returns the end of what was read last; valid when done is closed.
func (r *relay) last() string {
	const most = 2000
	return string(r.buf[max(0, r.filled-most):r.filled])
}

// run relays src until its end and then closes done. The first byte past the
// limit is told on past, whose buffer takes one name of each stream.
func (r *relay) run(src *os.File, limit int64, out *frameWriter, past chan<- string) {
	defer close(r.done)
	r.limit = limit
	for {
		n, err := r.gather(src)
		keep := min(int64(n), max(0, limit-r.total))
		wasOver := r.over()
		r.total += int64(n)
		if n > 0 {
			r.filled = n
		}
		if r.over() && !wasOver {
			past <- r.name // before the send, which waits for the worker
		}
		if err != nil {
			out.hold() // as a rule the program has ended, and its trace follows
		}
		if keep > 0 && out.send(r.kind, r.buf[:keep]) != nil {
			return // nobody listens any more
		}
		if err != nil {
			return
		}
	}
}

// gather fills the buffer as far as it can without holding back for more than
// coalesce what is already there.
func (r *relay) gather(src *os.File) (int, error) {
	n, err := src.Read(r.buf)
	if err != nil || n == len(r.buf) || r.over() {
		return n, err
	}
	if err := src.SetReadDeadline(time.Now().Add(coalesce)); err != nil {
		return n, nil // a file without deadlines is relayed as it comes
	}
	for n < len(r.buf) && err == nil {
		var more int
		more, err = src.Read(r.buf[n:])
		n += more
	}
	// However the gathering ended: a deadline that is left would end the next
	// read, and with it the relay.
	if clearErr := src.SetReadDeadline(time.Time{}); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		err = clearErr
	}
	return n, err
}

// feed writes data to the program's stdin and closes it. A program that reads
// only a part of it, or nothing, is no error.
func feed(stdin io.WriteCloser, data []byte) {
	if len(data) > 0 {
		_, _ = stdin.Write(data)
	}
	_ = stdin.Close()
}
