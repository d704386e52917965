package job

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

const (
	// longOutput is from how many bytes of output on WriteResult writes it in pieces.
	longOutput = 256 << 10
	// pieceBytes is how large the pieces are.
	pieceBytes = 64 << 10
)

// LongOutput tells whether the output of r is so long that WriteResult needs less memory than EncodeResult.
func (r Result) LongOutput() bool { return len(r.Stdout)+len(r.Stderr) >= longOutput }

// WriteResult writes what EncodeResult returns to w. Long output goes there in pieces, so that
// there is never a second copy of it.
func WriteResult(w io.Writer, r Result) error {
	if !r.LongOutput() {
		doc, err := EncodeResult(r)
		if err != nil {
			return err
		}
		return write(w, doc)
	}
	// The rest is encoded with marks in place of the output. No program can guess them.
	long := []string{r.Stdout, r.Stderr}
	r.Stdout, r.Stderr = rand.Text(), rand.Text()
	marks := []string{r.Stdout, r.Stderr}
	rest, err := EncodeResult(r)
	if err != nil {
		return err
	}
	for i, mark := range marks {
		before, after, ok := bytes.Cut(rest, []byte(`"`+mark+`"`))
		if !ok {
			return errors.New("encode result: it has no place for the output")
		}
		if err := write(w, before); err != nil {
			return err
		}
		if err := writeString(w, long[i]); err != nil {
			return err
		}
		rest = after
	}
	return write(w, rest)
}

// writeString writes s as a JSON string.
func writeString(w io.Writer, s string) error {
	var piece bytes.Buffer
	enc := json.NewEncoder(&piece)
	enc.SetEscapeHTML(false)
	if err := write(w, []byte{'"'}); err != nil {
		return err
	}
	for len(s) > 0 {
		n := min(pieceBytes, len(s))
		for n < len(s) && n > pieceBytes-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		piece.Reset()
		if err := enc.Encode(s[:n]); err != nil {
			return fmt.Errorf("encode result: %w", err)
		}
		const quote, quoteAndNewline = 1, 2
		if err := write(w, piece.Bytes()[quote:piece.Len()-quoteAndNewline]); err != nil {
			return err
		}
		s = s[n:]
	}
	return write(w, []byte{'"'})
}

func write(w io.Writer, p []byte) error {
	if _, err := w.Write(p); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
