package trace

import (
	"encoding/hex"
	"math"
	"math/big"
	"slices"
	"strconv"
)

// The tags of values and of what objects show.
const (
	tagNull = iota
	tagTrue
	tagFalse
	tagInt
	tagFloat
	tagStr
	tagCutStr
	tagBytes
	tagBig
	tagHuge
	tagFunction
	tagModule
	tagRef
	tagDel
)
const (
	tagList = 32 + iota
	tagTuple
	tagSet
	tagDict
	tagInstance
	tagClass
	tagRange
	tagRaw
)

const (
	// maxContent bounds the items of what one object shows.
	maxContent = 16
	// maxString bounds a shown string, in bytes.
	maxString = 1024
)

// appendValue reads a value and appends its JSON.
func appendValue(dst []byte, r *byteReader) []byte {
	switch r.byte() {
	case tagNull:
		return append(dst, "null"...)
	case tagTrue:
		return append(dst, "true"...)
	case tagFalse:
		return append(dst, "false"...)
	case tagInt:
		return appendInt(dst, r)
	case tagFloat:
		return appendFloat(dst, math.Float64frombits(r.uint64()))
	case tagStr:
		return appendText(dst, r.text(maxString))
	case tagCutStr:
		dst = appendText(append(dst, `["STR",`...), r.text(maxString))
		return appendCount(append(dst, ','), r)
	case tagBytes:
		dst = appendHex(append(dst, `["BYTES",`...), r.next(int(r.number(maxString/2))))
		return appendCount(append(dst, ','), r)
	case tagBig:
		return appendBig(dst, r)
	case tagHuge:
		n := r.number(1 << 62)
		return append(appendSigned(append(dst, `["BIGINT",`...), n), ']')
	case tagFunction:
		return append(appendText(append(dst, `["FUNCTION",`...), r.text(maxString)), ']')
	case tagModule:
		return append(appendText(append(dst, `["module",`...), r.text(maxString)), ']')
	case tagRef:
		dst = strconv.AppendUint(append(dst, `["REF",`...), r.number(maxNumber), 10)
		return append(dst, ']')
	case tagDel:
		return append(dst, `["DEL"]`...)
	}
	r.bad = true
	return dst
}

// appendCount reads a count that ends a tagged value.
func appendCount(dst []byte, r *byteReader) []byte {
	return append(strconv.AppendUint(dst, r.number(maxSafe), 10), ']')
}

// appendSigned appends a number whose lowest bit is its sign.
func appendSigned(dst []byte, n uint64) []byte {
	if n&1 != 0 {
		dst = append(dst, '-')
	}
	return strconv.AppendUint(dst, n>>1, 10)
}

// appendInt reads an integer that JSON may not be able to keep exact.
func appendInt(dst []byte, r *byteReader) []byte {
	n := r.number(1 << 62)
	if n>>1 > maxSafe {
		return append(appendSigned(append(dst, `["BIGINT","`...), n), `"]`...)
	}
	if n == 1 {
		n = 0
	}
	return appendSigned(dst, n)
}

// maxBigBytes bounds an integer that is written out.
const maxBigBytes = 64

// appendBig reads sign and bytes, lowest first.
func appendBig(dst []byte, r *byteReader) []byte {
	negative := r.byte() != 0
	raw := slices.Clone(r.next(int(r.number(maxBigBytes))))
	slices.Reverse(raw)
	n := new(big.Int).SetBytes(raw)
	if negative {
		n.Neg(n)
	}
	return append(n.Append(append(dst, `["BIGINT","`...), 10), `"]`...)
}

func appendHex(dst, data []byte) []byte {
	return append(hex.AppendEncode(append(dst, '"'), data), '"')
}

// appendFloat appends a float as Python writes it.
func appendFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `["SPECIAL_FLOAT","NaN"]`...)
	case math.IsInf(f, 1):
		return append(dst, `["SPECIAL_FLOAT","Infinity"]`...)
	case math.IsInf(f, -1):
		return append(dst, `["SPECIAL_FLOAT","-Infinity"]`...)
	}
	return appendPlainFloat(dst, f, true)
}

// appendPlainFloat appends a finite float with the fewest digits that give it
// back, with an exponent where Python has one, and with ".0" for a whole one
// if so wanted.
func appendPlainFloat(dst []byte, f float64, point bool) []byte {
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	before := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if point && !slices.Contains(dst[before:], '.') {
		dst = append(dst, ".0"...)
	}
	return dst
}

// appendText appends a JSON string.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c < ' ':
			dst = append(dst, `\u00`...)
			dst = append(dst, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
