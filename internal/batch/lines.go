package batch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLineBytes bounds one line of a file of jobs or results.
const maxLineBytes = 128 << 20

// lineReader reads whole lines, each with its end.
type lineReader struct{ r *bufio.Reader }

func newLineReader(r io.Reader) *lineReader { return &lineReader{bufio.NewReaderSize(r, 64<<10)} }

// next returns the next line that has an end. io.EOF means that there is none.
func (l *lineReader) next() ([]byte, error) {
	var line bytes.Buffer
	for {
		part, err := l.r.ReadSlice('\n')
		line.Write(part)
		switch {
		case err == nil:
			return line.Bytes(), nil
		case line.Len() > maxLineBytes:
			return nil, fmt.Errorf("a line is longer than %d bytes", maxLineBytes)
		case errors.Is(err, bufio.ErrBufferFull):
		default:
			return nil, err
		}
	}
}
