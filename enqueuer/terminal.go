package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/execra/tracefleet/internal/render"
)

// terminalWidth is the width of the terminal behind stream, a reader or a
// writer, and 0 when there is none.
func terminalWidth(stream any) int {
	file, isFile := stream.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width < minWidth {
		return minWidth
	}
	return width
}

// minWidth is the narrowest terminal that the text view is laid out for.
const minWidth = 40

// colored tells whether what is written to w is coloured.
func (s *session) colored(w io.Writer) bool {
	switch s.Color {
	case "always":
		return true
	case "never":
		return false
	}
	return terminalWidth(w) > 0 && s.getenv("NO_COLOR") == "" && s.getenv("TERM") != "dumb"
}

// renderOptions lays the text view out for standard output.
func (s *session) renderOptions(f formatFlag) render.Options {
	return render.Options{Width: terminalWidth(s.out), Color: s.colored(s.out), Steps: f.Steps, Unfolded: f.Unfold}
}
