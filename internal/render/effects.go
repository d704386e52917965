package render

import (
	"fmt"
	"strings"

	"github.com/execra/tracefleet/internal/trace"
)

// listedEffects is how many effects are shown at most.
const listedEffects = 25

// threadsEnded shows exceptions that ended threads, which the program itself survives.
func (v *view) threadsEnded() {
	s := v.result.Summary
	if s == nil || s.ThreadExceptionsTotal == 0 {
		return
	}
	v.heading("Threads ended by an exception")
	for _, e := range s.ThreadExceptions {
		text := fmt.Sprintf("thread %d: %s", e.Thread, exceptionWords(&trace.Exception{Type: e.Type, Message: e.Message, File: e.File, Line: e.Line, Function: e.Function}))
		for i, line := range wrap(plain(text), max(0, v.options.Width-4)) {
			v.printf("  %s %s\n", map[bool]string{true: v.paint.alarm("✗"), false: " "}[i == 0], line)
		}
	}
	if more := s.ThreadExceptionsTotal - int64(len(s.ThreadExceptions)); more > 0 {
		v.printf("  %s\n", v.paint.dim(fmt.Sprintf("… %s", count(more, "more thread"))))
	}
}

// effects lists what the program reached for outside itself.
func (v *view) effects() {
	all := v.result.Effects
	if len(all) == 0 {
		return
	}
	v.heading("Effects")
	widest, left := 0, int64(0)
	for _, e := range all {
		widest = max(widest, len(effectVerb(e)))
	}
	if s := v.result.Summary; s != nil {
		left = s.EffectsTotal.File + s.EffectsTotal.Socket + s.EffectsTotal.Process
	}
	for i, e := range all {
		left -= e.Times
		if i < listedEffects {
			v.effect(e, widest)
		}
	}
	if hidden := len(all) - listedEffects; hidden > 0 {
		v.printf("  %s\n", v.paint.dim(v.fit("… "+count(int64(hidden), "more effect"), 2)))
	}
	if left > 0 {
		v.printf("  %s\n", v.paint.dim(v.fit("… and "+count(left, "more time")+" past the end of the list", 2)))
	}
}

func (v *view) effect(e trace.Effect, widest int) {
	verb := effectVerb(e)
	line := verb + strings.Repeat(" ", widest-len(verb))
	name := e.Name
	if name == "" {
		name = e.Family
	}
	line += "  " + name
	if e.Times > 1 {
		line += fmt.Sprintf("   %s ×", number(e.Times))
	}
	if e.Error != nil {
		line += "   " + *e.Error
		if e.Failures < e.Times {
			line += fmt.Sprintf(" (%s ×)", number(e.Failures))
		}
	}
	if e.File != "" && e.Line > 0 {
		line += fmt.Sprintf("   %s:%d", e.File, e.Line)
	}
	line = v.fit("  "+strings.TrimRight(plain(line), " "), 0)
	if e.Error != nil {
		line = v.paint.yellow(line)
	}
	v.printf("%s\n", line)
}

// effectVerb says what was done; with a socket also that it was one.
func effectVerb(e trace.Effect) string {
	if e.Kind == trace.EffectSocket && (e.Action == "open" || e.Action == "bind") {
		return plain(e.Action) + " socket"
	}
	return plain(e.Action)
}
