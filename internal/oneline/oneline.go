// Package oneline makes texts from outside fit to be shown on one line: in logs, tables, headlines and messages.
package oneline

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Of makes s one line of at most n characters: runs of white space become one
// blank, none of it stands at the ends, what cannot be printed becomes U+FFFD, and a cut is shown.
func Of(s string, n int) string {
	// A character has at most four bytes, and a hostile message many; one more tells that there is more.
	s = s[:min(len(s), 4*(n+1)*utf8.UTFMax)]
	var b strings.Builder
	count, blank := 0, false
	for _, r := range s {
		if unicode.IsSpace(r) {
			blank = count > 0
			continue
		}
		if !unicode.IsPrint(r) {
			r = utf8.RuneError
		}
		for _, r := range spaced(blank, r) {
			if count == n {
				return cutLast(b.String()) + "…"
			}
			b.WriteRune(r)
			count++
		}
		blank = false
	}
	return b.String()
}

func spaced(blank bool, r rune) []rune {
	if blank {
		return []rune{' ', r}
	}
	return []rune{r}
}

// cutLast leaves out the last character.
func cutLast(s string) string {
	_, size := utf8.DecodeLastRuneInString(s)
	return s[:len(s)-size]
}
