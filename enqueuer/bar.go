package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/execra/tracefleet/internal/oneline"
)

// barEvery is how often a progress bar is drawn.
const barEvery = 100 * time.Millisecond

// bar shows a person on standard error how far a long work is. Without a terminal it shows nothing. It is for
// one goroutine.
type bar struct {
	s     *session
	what  string
	total int64
	start time.Time
	drawn time.Time
	live  bool
	note  string
}

func (s *session) bar(what string, total int64) *bar {
	live := !s.Quiet && terminalWidth(s.err) > 0 && s.getenv("TERM") != "dumb"
	return &bar{s: s, what: what, total: total, start: time.Now(), live: live}
}

// move draws the bar, unless it was drawn just now. moved of done were done since the bar began; the rest says nothing
// of the speed.
func (b *bar) move(done, moved int64) {
	if !b.live || time.Since(b.drawn) < barEvery && done < b.total {
		return
	}
	b.drawn = time.Now()
	b.s.notice("\r\x1b[K%s", barLine(b.what, b.note, done, b.total, moved, time.Since(b.start), terminalWidth(b.s.err)))
}

// say adds a word to the bar until the next one.
func (b *bar) say(note string) {
	if note != b.note {
		b.note, b.drawn = note, time.Time{}
	}
}

// end clears the line.
func (b *bar) end() {
	if b.live && !b.drawn.IsZero() {
		b.s.notice("\r\x1b[K")
	}
}

// barLine is one line of at most width columns: what, a bar, counts, rate and the time that is left at that rate. moved of
// done were done in elapsed.
func barLine(what, note string, done, total, moved int64, elapsed time.Duration, width int) string {
	share := 1.0
	if total > 0 {
		share = min(float64(done)/float64(total), 1)
	}
	tail := fmt.Sprintf(" %d/%d %3.0f%%", done, total, 100*share)
	if seconds := elapsed.Seconds(); seconds > 0 && moved > 0 {
		rate := float64(moved) / seconds
		left := time.Duration(float64(total-done) / rate * float64(time.Second))
		tail += fmt.Sprintf("  %s/s  %s left", rateText(rate), leftText(left))
	}
	if note != "" {
		tail += "  " + note
	}
	room := width - len([]rune(what)) - len([]rune(tail)) - 4
	if room < 5 {
		return oneline.Of(what+tail, max(width-1, 1))
	}
	room = min(room, 40)
	full := int(share * float64(room))
	return what + " [" + strings.Repeat("#", full) + strings.Repeat("-", room-full) + "]" + tail
}

func rateText(rate float64) string {
	if rate < 10 {
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

// leftText is a time in its two largest units.
func leftText(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%ds", int(d.Seconds()))
}
