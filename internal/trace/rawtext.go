package trace

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The kinds of values that come as raw bytes of a type written in C.
const (
	rawComplex = 1 + iota
	rawByteArray
	rawDecimal
	rawDateTime
	rawDate
	rawTime
	rawTimeDelta
	rawArray
	rawScalar
)

// maxShownText bounds the characters of a shown text.
const maxShownText = 80

// appendRaw words a value of a type in C as Python does. The bytes may be
// anything: what is not there reads as zero.
func appendRaw(dst []byte, name string, kind byte, data []byte) []byte {
	r := &byteReader{rest: data}
	var text string
	switch kind {
	case rawByteArray:
		size := min(r.uint64(), maxSafe)
		dst = appendHex(append(dst, `["BYTES",`...), r.rest)
		return append(strconv.AppendUint(append(dst, ','), size, 10), ']')
	case rawComplex:
		text = complexText(math.Float64frombits(r.uint64()), math.Float64frombits(r.uint64()))
	case rawDecimal:
		text = decimalText(r)
	case rawDate:
		text = fmt.Sprintf("%04d-%02d-%02d", r.field(), r.field(), r.field())
	case rawDateTime:
		text = fmt.Sprintf("%04d-%02d-%02d ", r.field(), r.field(), r.field()) + r.clock()
	case rawTime:
		text = r.clock()
	case rawTimeDelta:
		text = timeDeltaText(int64(int32(r.field())), r.field(), r.field())
	case rawArray, rawScalar:
		text = arrayText(r, kind == rawArray)
	default:
		text = "?"
	}
	dst = appendText(append(dst, `["INSTANCE_PPRINT",`...), name)
	return append(appendText(append(dst, ','), cutText(text)), ']')
}

// cutText cuts a text to what is shown.
func cutText(s string) string {
	shown := 0
	for i := range s {
		if shown == maxShownText {
			return s[:i]
		}
		shown++
	}
	return s
}

// field reads one field of a date or time.
func (r *byteReader) field() int64 { return int64(int32(r.uint64())) }

// clock reads hour, minute, second and microsecond.
func (r *byteReader) clock() string {
	text := fmt.Sprintf("%02d:%02d:%02d", r.field(), r.field(), r.field())
	if micro := r.field(); micro != 0 {
		text += fmt.Sprintf(".%06d", micro)
	}
	return text
}

func timeDeltaText(days, seconds, micro int64) string {
	var text string
	if days != 0 {
		plural := "s"
		if days == 1 || days == -1 {
			plural = ""
		}
		text = fmt.Sprintf("%d day%s, ", days, plural)
	}
	text += fmt.Sprintf("%d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
	if micro != 0 {
		text += fmt.Sprintf(".%06d", micro)
	}
	return text
}

// complexText words a complex number: (1+2j), or 2j when the real part is a plain zero.
func complexText(re, im float64) string {
	part := func(f float64) string {
		switch {
		case math.IsNaN(f):
			return "nan"
		case math.IsInf(f, 0):
			return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'f', -1, 64)), "+")
		}
		return string(appendPlainFloat(nil, f, false))
	}
	imaginary := part(im)
	if re == 0 && !math.Signbit(re) {
		return imaginary + "j"
	}
	if imaginary[0] != '-' {
		imaginary = "+" + imaginary
	}
	return "(" + part(re) + imaginary + "j)"
}

// The flags of a Decimal, and the decimal digits of one of its words.
const (
	decimalNegative = 1 << iota
	decimalInfinite
	decimalNaN
	decimalSignalingNaN
	wordDigits = 19
)

// decimalText reads flags, exponent, digits and the leading words of a Decimal,
// and words it as Python does.
func decimalText(r *byteReader) string {
	flags, exponent, digits := r.uint64(), int64(r.uint64()), int64(min(r.uint64(), 1<<40))
	sign := ""
	if flags&decimalNegative != 0 {
		sign = "-"
	}
	var all strings.Builder
	for i := 0; len(r.rest) >= 8; i++ {
		if word := r.uint64(); i == 0 {
			all.WriteString(strconv.FormatUint(word, 10))
		} else {
			fmt.Fprintf(&all, "%0*d", wordDigits, word)
		}
	}
	text := all.String()
	diagnostic := text // what a NaN carries besides
	if digits == 0 {
		diagnostic = ""
	}
	switch {
	case flags&decimalInfinite != 0:
		return sign + "Infinity"
	case flags&decimalNaN != 0:
		return sign + "NaN" + diagnostic
	case flags&decimalSignalingNaN != 0:
		return sign + "sNaN" + diagnostic
	}
	if text == "" {
		text, digits = "0", 1
	}
	adjusted := exponent + digits - 1
	if exponent <= 0 && adjusted >= -6 {
		return sign + placePoint(text, digits+exponent, digits)
	}
	if len(text) > 1 {
		text = text[:1] + "." + text[1:]
	}
	return fmt.Sprintf("%s%sE%+d", sign, cutText(text), adjusted)
}

// placePoint writes digits, of which there are more than shown, with the point
// after the first so many.
func placePoint(text string, point, digits int64) string {
	switch {
	case point <= 0:
		return "0." + strings.Repeat("0", int(min(-point, maxShownText))) + text
	case point >= digits || point >= int64(len(text)):
		return text
	}
	return text[:point] + "." + text[point:]
}
