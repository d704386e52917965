package trace

import (
	"fmt"
	"strings"
	"unicode"
)

// PythonString writes s as a Python string literal, the way repr does.
func PythonString(s string) string {
	quote := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		quote = '"'
	}
	var out strings.Builder
	out.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			out.WriteRune('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		default:
			out.WriteString(printable(r))
		}
	}
	out.WriteRune(quote)
	return out.String()
}

// PythonBytes writes b as a Python bytes literal, the way repr does.
func PythonBytes(b []byte) string {
	quote := byte('\'')
	if strings.IndexByte(string(b), '\'') >= 0 && strings.IndexByte(string(b), '"') < 0 {
		quote = '"'
	}
	out := []byte{'b', quote}
	for _, c := range b {
		switch {
		case c == quote || c == '\\':
			out = append(out, '\\', c)
		case c == '\n':
			out = append(out, `\n`...)
		case c == '\r':
			out = append(out, `\r`...)
		case c == '\t':
			out = append(out, `\t`...)
		case c < ' ' || c > '~':
			out = fmt.Appendf(out, `\x%02x`, c)
		default:
			out = append(out, c)
		}
	}
	return string(append(out, quote))
}

// clean replaces what cannot be printed by its Python escape.
func clean(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		out.WriteString(printable(r))
	}
	return out.String()
}

func printable(r rune) string {
	switch {
	case unicode.IsPrint(r):
		return string(r)
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}
