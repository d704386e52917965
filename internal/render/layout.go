package render

import (
	"fmt"
	"strings"
)

// Layout of the steps: how deep calls are indented, and where the values stand.
const (
	deepestIndent  = 12
	valueColumnMax = 48
	valueColumnMin = 24
	narrowest      = 20 // what is written even on a terminal too narrow for it
	gutterMin      = 3
)

// shorten keeps the beginning and the end of a long run.
func (v *view) shorten(rows []*row) []*row {
	limit := v.options.Steps
	if limit <= 0 || len(rows) <= limit+1 {
		return rows
	}
	head := limit * 2 / 3
	tail := limit - head
	for _, w := range rows[head : len(rows)-tail] {
		v.outputShown = v.outputShown && w.look != lookOut && w.look != lookErr
	}
	missing := &row{look: lookNote, text: fmt.Sprintf("… %s … (--steps 0 shows all)", count(int64(len(rows)-limit), "more row"))}
	short := append([]*row{}, rows[:head]...)
	return append(append(short, missing), rows[len(rows)-tail:]...)
}

// writeRows lays the rows out in columns: gutter, code, values.
func (v *view) writeRows(rows []*row) {
	gutter := gutterMin
	for _, w := range rows {
		gutter = max(gutter, len(w.gutter))
	}
	column := v.valueColumn(rows)
	for _, w := range rows {
		v.writeRow(w, gutter, column)
	}
}

// valueColumn is wide enough for most lines that have values beside them.
func (v *view) valueColumn(rows []*row) int {
	most, column := valueColumnMax, valueColumnMin
	if v.options.Width > 0 {
		most, column = min(most, v.options.Width/2), min(column, v.options.Width/3)
	}
	for _, w := range rows {
		if n := columns(w.text) + columns(v.guides(w.depth)); len(w.changes) > 0 && n <= most {
			column = max(column, n)
		}
	}
	return column
}

func (v *view) writeRow(w *row, gutterWidth, column int) {
	gutter := strings.Repeat(" ", gutterWidth-len(w.gutter)) + w.gutter
	used := 1 + gutterWidth + columns(" │ ")
	margin := v.paint.dim(gutter + " │ ")
	if w.look == lookOut || w.look == lookErr {
		for _, piece := range wrap(w.text, v.room(used)) {
			v.printf(" %s%s\n", v.paintGutter(w.look, gutter), v.paintText(w.look, piece))
			gutter = strings.Repeat(" ", gutterWidth)
		}
		return
	}
	lead := v.guides(w.depth)
	text := w.text
	if room := v.room(used); room > 0 {
		text = cut(text, room-columns(lead))
	}
	left := columns(lead) + columns(text)
	line := fmt.Sprintf(" %s%s%s", margin, v.paint.dim(lead), v.paintText(w.look, text))
	for i, values := range v.valueLines(w.changes, used, column, left) {
		if i == 0 && left <= column {
			line += strings.Repeat(" ", column-left)
		} else if i > 0 || left > column && v.room(used) > 0 && left+3+columns(values) > v.room(used) {
			v.printf("%s\n", line)
			line = fmt.Sprintf(" %s%s", v.paint.dim(strings.Repeat(" ", gutterWidth)+" │ "), strings.Repeat(" ", column))
		}
		line += "   " + v.paint.cyan(values)
	}
	v.printf("%s\n", strings.TrimRight(line, " "))
}

// room is how many columns the terminal leaves beside the gutter, 0 for no limit.
func (v *view) room(used int) int {
	if v.options.Width == 0 {
		return 0
	}
	return max(narrowest, v.options.Width-used)
}

// valueLines joins the changes into as few lines as fit beside the code.
func (v *view) valueLines(changes []string, used, column, left int) []string {
	room := v.room(used) - column - 3
	var lines []string
	for _, change := range changes {
		if v.options.Width > 0 {
			change = cut(change, room)
		}
		if n := len(lines); n > 0 && (v.options.Width == 0 || columns(lines[n-1])+3+columns(change) <= room) {
			lines[n-1] += "   " + change
			continue
		}
		lines = append(lines, change)
	}
	return lines
}

// guides are the marks that show how deep a call is. The module's own code has none.
func (v *view) guides(depth int) string {
	depth = max(0, depth-1)
	deepest := deepestIndent
	if v.options.Width > 0 {
		deepest = min(deepest, v.options.Width/8)
	}
	if depth <= deepest {
		return strings.Repeat("┊ ", depth)
	}
	return strings.Repeat("┊ ", max(0, deepest-2)) + fmt.Sprintf("%d ┊ ", depth)
}

func (v *view) paintGutter(l look, gutter string) string {
	if l == lookErr {
		return v.paint.yellow(gutter) + v.paint.dim(" │ ")
	}
	return v.paint.green(gutter) + v.paint.dim(" │ ")
}

func (v *view) paintText(l look, text string) string {
	switch l {
	case lookAgain, lookReturn, lookNote:
		return v.paint.dim(text)
	case lookCall:
		return v.paint.bold(text)
	case lookRaise, lookErr:
		return v.paint.yellow(text)
	case lookFatal:
		return v.paint.alarm(text)
	case lookOut:
		return v.paint.green(text)
	}
	return text
}
