package trace

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDimensions bounds the dimensions of an array that are shown, maxItemBytes
// the size of an item.
const (
	maxDimensions = 8
	maxItemBytes  = 160
)

// itemTypes names the formats of the buffer protocol as numpy does.
var itemTypes = map[string]string{
	"?": "bool", "b": "int8", "B": "uint8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32",
	"l": "int64", "L": "uint64", "q": "int64", "Q": "uint64", "e": "float16", "f": "float32", "d": "float64",
	"Zf": "complex64", "Zd": "complex128", "O": "object",
}

// itemLayout says how the items of an array are laid out.
type itemLayout struct {
	format string // of the buffer protocol, without the order of bytes and the length of a text
	size   int
	order  binary.ByteOrder
}

// readItems reads format and size of an array's items.
func readItems(r *byteReader) itemLayout {
	var packed [8]byte
	binary.LittleEndian.PutUint64(packed[:], r.uint64())
	it := itemLayout{format: strings.TrimRight(string(packed[:]), "\x00"), size: int(min(r.uint64(), maxItemBytes)), order: binary.LittleEndian}
	if rest, found := strings.CutPrefix(it.format, ">"); found {
		it.format, it.order = rest, binary.BigEndian
	}
	if strings.HasSuffix(it.format, "w") || strings.HasSuffix(it.format, "s") {
		it.format = it.format[len(it.format)-1:]
	}
	return it
}

// name is what numpy calls the items' type.
func (it itemLayout) name() string {
	name, known := itemTypes[it.format]
	switch {
	case it.format == "w":
		name = fmt.Sprintf("U%d", it.size/4)
	case it.format == "s":
		name = fmt.Sprintf("S%d", it.size)
	case !known:
		return "other"
	}
	if it.order == binary.BigEndian {
		return ">" + name
	}
	return name
}

// arrayText reads items, dimensions and the first items of an array, or one number.
func arrayText(r *byteReader, array bool) string {
	it, dimensions := readItems(r), int(min(r.uint64(), maxDimensions))
	shape := make([]string, dimensions)
	total := int64(1)
	for i := range shape {
		n := int64(min(r.uint64(), 1<<40))
		total = min(total, 1<<20) * n // more than are ever shown, and no overflow
		shape[i] = strconv.FormatInt(n, 10)
	}
	var shown []string
	for it.size > 0 && len(r.rest) >= it.size {
		shown = append(shown, it.text(r.next(it.size)))
	}
	if !array {
		return strings.Join(shown, "")
	}
	if int64(len(shown)) < total {
		shown = append(shown, "...")
	}
	comma := ""
	if dimensions == 1 {
		comma = ","
	}
	return fmt.Sprintf("(%s%s) %s [%s]", strings.Join(shape, ", "), comma, it.name(), strings.Join(shown, ", "))
}

// number reads an unsigned number.
func (it itemLayout) number(data []byte) uint64 {
	var n uint64
	for i := range data {
		if it.order == binary.BigEndian {
			n = n<<8 | uint64(data[i])
		} else {
			n = n<<8 | uint64(data[len(data)-1-i])
		}
	}
	return n
}

// text words one item.
func (it itemLayout) text(data []byte) string {
	switch it.format {
	case "w":
		return it.textOf(data)
	case "s":
		return "b" + quoted(strings.TrimRight(string(data), "\x00"))
	case "Zf", "Zd":
		half := len(data) / 2
		return complexText(it.float(data[:half]), it.float(data[half:]))
	}
	if len(data) > 8 {
		return "?"
	}
	n := it.number(data)
	switch {
	case it.format == "?":
		return map[bool]string{true: "True", false: "False"}[n != 0]
	case it.format == "e" || it.format == "f" || it.format == "d":
		return floatText(it.float(data), 8*len(data))
	case strings.Contains("bhilq", it.format):
		shift := 64 - 8*len(data)
		return strconv.FormatInt(int64(n<<shift)>>shift, 10)
	}
	return strconv.FormatUint(n, 10)
}

// textOf words characters of four bytes each.
func (it itemLayout) textOf(data []byte) string {
	var text strings.Builder
	for ; len(data) >= 4; data = data[4:] {
		character := rune(min(it.number(data[:4]), utf8.MaxRune))
		text.WriteRune(character)
	}
	return quoted(strings.TrimRight(text.String(), "\x00"))
}

// quoted puts a text between single quotes.
func quoted(s string) string {
	inner := strconv.Quote(s)
	inner = strings.ReplaceAll(inner[1:len(inner)-1], `\"`, `"`)
	return "'" + strings.ReplaceAll(inner, "'", `\'`) + "'"
}

// float reads a number of two, four or eight bytes; any other size reads as zero.
func (it itemLayout) float(data []byte) float64 {
	switch n := it.number(data); len(data) {
	case 2:
		return halfFloat(uint16(n))
	case 4:
		return float64(math.Float32frombits(uint32(n)))
	case 8:
		return math.Float64frombits(n)
	}
	return 0
}

// halfFloat reads an IEEE 754 number of two bytes.
func halfFloat(n uint16) float64 {
	exponent, fraction := int(n>>10&31), float64(n&1023)
	value := math.Ldexp(1024+fraction, exponent-25)
	switch {
	case exponent == 31 && fraction != 0:
		return math.NaN()
	case exponent == 31:
		value = math.Inf(1)
	case exponent == 0:
		value = math.Ldexp(fraction, -24)
	}
	if n>>15 != 0 {
		return -value
	}
	return value
}

func floatText(f float64, bits int) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if bits < 32 {
		f, bits = shortened(f), 64
	}
	text := strconv.FormatFloat(f, 'g', -1, bits)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

// shortened rounds a number of two bytes to the fewest digits that tell it from its neighbours: five are enough for each.
func shortened(f float64) float64 {
	_, exponent := math.Frexp(f)
	step := math.Ldexp(1, max(exponent-11, -24)) // to the next number
	near := f
	for digits := 1; digits <= 5; digits++ {
		near, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'g', digits, 64), 64) // what it wrote itself
		if math.Abs(near-f) < step/2 {
			break
		}
	}
	return near
}
