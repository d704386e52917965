package render

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

const tabWidth = 4

// plain makes a program's text harmless on a terminal: control characters
// become their visible symbols, direction overrides and other format
// characters their escapes, and tabs spaces.
func plain(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !showable(r) }) {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		switch {
		case showable(r):
			out.WriteRune(r)
		case r == '\t':
			out.WriteString(strings.Repeat(" ", tabWidth))
		case r < ' ':
			out.WriteRune('␀' + r)
		case r == 0x7f:
			out.WriteRune('␡')
		case r < 0x100:
			fmt.Fprintf(&out, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\U%08x`, r)
		}
	}
	return out.String()
}

// showable tells whether r may be sent to a terminal as it is. The two joiners
// are needed to write some languages and emoji.
func showable(r rune) bool {
	const zeroWidthNonJoiner, zeroWidthJoiner = '\u200c', '\u200d'
	return unicode.IsPrint(r) || r == zeroWidthNonJoiner || r == zeroWidthJoiner
}

// columns is how many columns s takes on a terminal. s must be plain.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// cut shortens s to at most limit columns, ending in "…" when it was longer.
func cut(s string, limit int) string {
	if len(s) <= limit || columns(s) <= limit {
		return s
	}
	n := 0
	for i, r := range s {
		if n+runeColumns(r) > limit-1 {
			return s[:i] + "…"
		}
		n += runeColumns(r)
	}
	return s
}

// wrap splits s into pieces of at most limit columns each; 0 means no limit.
func wrap(s string, limit int) []string {
	if limit <= 0 || columns(s) <= limit {
		return []string{s}
	}
	var pieces []string
	start, n := 0, 0
	for i, r := range s {
		if n+runeColumns(r) > limit && i > start {
			pieces = append(pieces, s[start:i])
			start, n = i, 0
		}
		n += runeColumns(r)
	}
	return append(pieces, s[start:])
}

// wrapWords joins words into as few lines as fit into limit columns; a limit
// that is not positive means one line.
func wrapWords(words []string, between string, limit int) []string {
	var lines []string
	for _, word := range words {
		if n := len(lines); n > 0 && (limit <= 0 || columns(lines[n-1])+columns(between)+columns(word) <= limit) {
			lines[n-1] += between + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}

// slice gives the bytes from..to of s, each end moved forward to the start of
// a character and held inside s.
func slice(s string, from, to int64) string {
	from, to = min(max(from, 0), int64(len(s))), min(max(to, 0), int64(len(s)))
	for from < int64(len(s)) && !utf8.RuneStart(s[from]) {
		from++
	}
	for to < int64(len(s)) && !utf8.RuneStart(s[to]) {
		to++
	}
	if from >= to {
		return ""
	}
	return s[from:to]
}
