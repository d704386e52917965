package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Size is a number of bytes, written as 1000000, 1MB, 256MiB or 1.5GB. kB, MB and
// GB are powers of 1000; KiB, MiB and GiB of 1024.
type Size int64

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := parseSize(string(text))
	if err != nil {
		return err
	}
	*s = Size(n)
	return nil
}

func parseSize(text string) (int64, error) {
	factors := map[string]float64{
		"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9,
		"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30,
	}
	unitAt := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if unitAt < 0 {
		unitAt = len(text)
	}
	factor, known := factors[strings.ToLower(strings.TrimSpace(text[unitAt:]))]
	number, err := strconv.ParseFloat(text[:unitAt], 64)
	bytes := number * factor
	if !known || err != nil || bytes != math.Trunc(bytes) || bytes > math.MaxInt64/2 {
		return 0, fmt.Errorf("must be a number of bytes such as 1000000, 1MB or 256MiB, got %q", text)
	}
	return int64(bytes), nil
}

// Duration is a time in whole milliseconds, written as 500ms, 10s or 1m30s.
type Duration time.Duration

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed < 0 || parsed%time.Millisecond != 0 {
		return fmt.Errorf("must be a time in whole milliseconds such as 500ms, 10s or 2m, got %q", text)
	}
	*d = Duration(parsed)
	return nil
}

// Milliseconds gives d in milliseconds.
func (d Duration) Milliseconds() int64 { return time.Duration(d).Milliseconds() }

// Seconds is a time of at least one second, in whole ones, written as 90s or 24h.
type Seconds int64

// UnmarshalText reads a time.
func (s *Seconds) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed < time.Second || parsed%time.Second != 0 {
		return fmt.Errorf("must be a time in whole seconds such as 90s or 24h, got %q", text)
	}
	*s = Seconds(parsed / time.Second)
	return nil
}

// Word is a text that may start with a dash, as an argument for somebody else does.
type Word string

// Decode takes the next word of the command line as it is.
func (w *Word) Decode(ctx *kong.DecodeContext) error {
	token := ctx.Scan.Pop()
	text, isText := token.Value.(string)
	if token.IsEOL() || !isText {
		return errors.New("needs a value")
	}
	*w = Word(text)
	return nil
}

// Set makes to what a flag says, if it was given.
func Set[T ~int64](to *int64, flag *T) {
	if flag != nil {
		*to = int64(*flag)
	}
}

// SetMillis makes to what a flag says in milliseconds, if it was given.
func SetMillis(to *int64, flag *Duration) {
	if flag != nil {
		*to = flag.Milliseconds()
	}
}
