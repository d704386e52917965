package trace

import (
	"encoding/binary"
	"unicode/utf8"
)

// byteReader reads the parts of one record. After the first part that is not
// there, or out of bounds, bad is set and all that follows is zero.
type byteReader struct {
	rest []byte
	bad  bool
}

// next returns the next n bytes.
func (r *byteReader) next(n int) []byte {
	if r.bad || n < 0 || n > len(r.rest) {
		r.bad = true
		return nil
	}
	part := r.rest[:n]
	r.rest = r.rest[n:]
	return part
}

func (r *byteReader) byte() byte {
	part := r.next(1)
	if r.bad {
		return 0
	}
	return part[0]
}

func (r *byteReader) uint16() uint16 {
	part := r.next(2)
	if r.bad {
		return 0
	}
	return binary.LittleEndian.Uint16(part)
}

func (r *byteReader) uint32() uint32 {
	part := r.next(4)
	if r.bad {
		return 0
	}
	return binary.LittleEndian.Uint32(part)
}

func (r *byteReader) uint64() uint64 {
	part := r.next(8)
	if r.bad {
		return 0
	}
	return binary.LittleEndian.Uint64(part)
}

// number reads an unsigned number of seven bits a byte, lowest first, up to limit.
func (r *byteReader) number(limit uint64) uint64 {
	if r.bad {
		return 0
	}
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > limit {
		r.bad = true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// text reads a string of at most limit bytes. What is not UTF-8 becomes U+FFFD.
func (r *byteReader) text(limit int) string {
	part := r.next(int(r.number(uint64(limit))))
	if utf8.Valid(part) {
		return string(part)
	}
	return string([]rune(string(part)))
}
