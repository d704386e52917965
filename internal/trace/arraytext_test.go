package trace

import (
	"encoding/binary"
	"testing"
)

// TestArrayText words items of each format that the tracer sends, one array of one dimension each.
func TestArrayText(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		format string
		size   int
		count  uint64
		data   string
		want   string
	}{
		"int":                 {"l", 8, 2, "\xff\xff\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x00\x00\x00", "(2,) int64 [-1, 2]"},
		"more than shown":     {"B", 1, 9, "\x01\xff", "(9,) uint8 [1, 255, ...]"},
		"bool":                {"?", 1, 2, "\x01\x00", "(2,) bool [True, False]"},
		"big end first":       {">i", 4, 1, "\xff\xff\xff\xfe", "(1,) >int32 [-2]"},
		"big end first float": {">d", 8, 1, "\x3f\xf8\x00\x00\x00\x00\x00\x00", "(1,) >float64 [1.5]"},
		"half":                {"e", 2, 6, "\x66\x2e\x00\xc0\x01\x00\x00\x7c\x01\x7c\xff\x7b", "(6,) float16 [0.1, -2.0, 6e-08, inf, nan, 65500.0]"},
		"complex":             {"Zf", 8, 1, "\x00\x00\x80\x3f\x00\x00\x00\xc0", "(1,) complex64 [(1-2j)]"},
		"text":                {"2w", 8, 2, "a\x00\x00\x00\xe9\x00\x00\x00'\x00\x00\x00\x00\x00\x00\x00", `(2,) U2 ['aé', '\'']`},
		"text out of range":   {"1w", 4, 1, "\xff\xff\xff\xff", `(1,) U1 ['\U0010ffff']`},
		"bytes":               {"3s", 3, 1, "ab\x00", "(1,) S3 [b'ab']"},
		"objects":             {"O", 8, 3, "", "(3,) object [...]"},
		"records":             {"T{i:a:=", 12, 1, "", "(1,) other [...]"},
		"cut short":           {"d", 8, 1, "\x00\x00", "(1,) float64 [...]"},
		"an odd size":         {"f", 3, 1, "\x00\x00\x00", "(1,) float32 [0.0]"},
		"numbers too long":    {"l", 16, 1, "0123456789abcdef", "(1,) int64 [?]"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := make([]byte, 8, 64)
			copy(data, c.format)
			for _, n := range []uint64{uint64(c.size), 1, c.count} {
				data = binary.LittleEndian.AppendUint64(data, n)
			}
			if got := arrayText(&byteReader{rest: append(data, c.data...)}, true); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestArrayTextOfManyItems has dimensions whose product is more than 64 bits, as only a forged record has them, or nothing for one of them.
func TestArrayTextOfManyItems(t *testing.T) {
	t.Parallel()
	for want, last := range map[string]uint64{
		"(1099511627776, 1099511627776) int64 [...]": 1 << 40,
		"(1099511627776, 0) int64 []":                0,
	} {
		data := []byte("l\x00\x00\x00\x00\x00\x00\x00")
		for _, n := range []uint64{8, 2, 1 << 40, last} {
			data = binary.LittleEndian.AppendUint64(data, n)
		}
		if got := arrayText(&byteReader{rest: data}, true); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
