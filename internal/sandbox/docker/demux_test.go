package docker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func chunk(stream byte, data string) string {
	header := [demuxHeader]byte{stream}
	binary.BigEndian.PutUint32(header[4:], uint32(len(data)))
	return string(header[:]) + data
}

func TestDemux(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in             string
		stdout, stderr string
		err            error
	}{
		"nothing":             {"", "", "", nil},
		"both streams":        {chunk(1, "ab") + chunk(2, "E") + chunk(1, "c"), "abc", "E", nil},
		"empty chunks":        {chunk(1, "") + chunk(2, "") + chunk(1, "x") + chunk(1, ""), "x", "", nil},
		"stderr is cut":       {chunk(2, strings.Repeat("e", 3000)) + chunk(2, strings.Repeat("f", 3000)) + chunk(1, "x"), "x", strings.Repeat("e", 3000) + strings.Repeat("f", 1096), nil},
		"cut in a header":     {chunk(1, "ab") + "\x01\x00", "ab", "", io.ErrUnexpectedEOF},
		"cut in a chunk":      {chunk(1, "abcd")[:10], "ab", "", io.ErrUnexpectedEOF},
		"cut in stderr":       {chunk(2, "abcd")[:10], "", "ab", io.ErrUnexpectedEOF},
		"error of the engine": {chunk(1, "ab") + chunk(3, "broken"), "ab", "", errEngineStream},
		"stdin echoed":        {chunk(0, "ab"), "", "", errBadStream},
		"no such stream":      {chunk(4, "ab"), "", "", errBadStream},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDemux(bufio.NewReader(iotest.OneByteReader(strings.NewReader(c.in))))
			got, err := io.ReadAll(d)
			if string(got) != c.stdout || string(d.stderr) != c.stderr || !errors.Is(err, c.err) {
				t.Errorf("got %q, stderr of %d bytes, %v; want %q, %d, %v", got, len(d.stderr), err, c.stdout, len(c.stderr), c.err)
			}
		})
	}
}

func TestDemuxPending(t *testing.T) {
	t.Parallel()
	d := newDemux(bufio.NewReader(strings.NewReader(chunk(1, "abcd") + chunk(1, "efg") + chunk(2, "err"))))
	for _, want := range []int{0, 2, 3, 1, 0} { // unread, within a chunk, between two, within, before stderr
		if got := d.pending(); got != want {
			t.Errorf("got %d pending, want %d", got, want)
		}
		if _, err := io.ReadFull(d, make([]byte, 2)); err != nil && want != 1 && want != 0 {
			t.Fatal(err)
		}
	}
}

// FuzzDemux feeds arbitrary bytes: it must end, keep within its bounds, and
// give what a well-formed stream holds.
func FuzzDemux(f *testing.F) {
	f.Add([]byte(chunk(1, "ab")+chunk(2, "c")), 1)
	f.Add([]byte(chunk(1, "ab")+"\x01\x00\x00\x00\xff\xff\xff\xff"), 3)
	f.Add([]byte(chunk(3, "error")), 2)
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		d := newDemux(bufio.NewReader(bytes.NewReader(in)))
		p := make([]byte, 1+max(0, size)%64)
		var total int
		for {
			d.pending()
			n, err := d.Read(p)
			if n < 0 || n > len(p) {
				t.Fatalf("got %d bytes for %d", n, len(p))
			}
			total += n
			if err != nil {
				break
			}
			if n == 0 {
				t.Fatal("got nothing and no error")
			}
		}
		if total > len(in) || len(d.stderr) > maxStderr {
			t.Fatalf("got %d bytes out of %d, %d of stderr", total, len(in), len(d.stderr))
		}
	})
}
