package oneline_test

import (
	"strings"
	"testing"

	"github.com/execra/tracefleet/internal/oneline"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                         "",
		"plain":                    "plain",
		" a \n\t b\r\n":            "a b",
		"\x1b[31mred\x07":          "\ufffd[31mred\ufffd",
		"right\u202eleft":          "right\ufffdleft",
		"broken \xff":              "broken \ufffd",
		"0123456789":               "0123456789",
		"0123456789a":              "012345678…",
		"éééééééééé":               "éééééééééé",
		"ééééééééééé":              "ééééééééé…",
		"012345678 9":              "012345678…",
		"0123456789 \n ":           "0123456789",
		strings.Repeat("😀", 1<<20): "😀😀😀😀😀😀😀😀😀…",
	} {
		if got := oneline.Of(in, 10); got != want {
			t.Errorf("Of(%.40q): got %q, want %q", in, got, want)
		}
	}
}
