package render

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// painter colours text when it is on.
type painter struct{ on bool }

func (p painter) with(code, s string) string {
	if !p.on || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p painter) bold(s string) string   { return p.with("1", s) }
func (p painter) dim(s string) string    { return p.with("2", s) }
func (p painter) green(s string) string  { return p.with("32", s) }
func (p painter) yellow(s string) string { return p.with("33", s) }
func (p painter) cyan(s string) string   { return p.with("36", s) }
func (p painter) alarm(s string) string  { return p.with("1;31", s) }

// printf writes one formatted piece of the view. The writer keeps its first
// error, which Text returns when it flushes.
func (v *view) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(v.out, format, args...)
}

// heading starts a section.
func (v *view) heading(text string) { v.printf("\n%s\n", v.paint.bold(text)) }

// number writes n with commas between the thousands.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count writes a number with its noun, which gets an "s" unless n is 1.
func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "s") {
		noun += "e"
	}
	return number(n) + " " + noun + "s"
}

// size writes a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return trimZero(float64(n)/(1<<30)) + " GiB"
	case n >= 1<<20:
		return trimZero(float64(n)/(1<<20)) + " MiB"
	case n >= 10<<10:
		return trimZero(float64(n)/(1<<10)) + " KiB"
	}
	return count(n, "byte")
}

func trimZero(f float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}

// millis writes a number of milliseconds for people.
func millis(ms int64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case ms < 60_000:
		return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(float64(ms)/1000, 'f', 2, 64), "0"), ".") + " s"
	}
	return (time.Duration(ms) * time.Millisecond).Round(time.Second).String()
}
