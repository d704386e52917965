package tracer_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/execra/tracefleet/internal/trace"
)

// spin is a program that counts up to a limit, and what it does then.
func spin(limit, then string) string {
	return "def spin(limit):\n    n = double = 0\n    while n < limit:\n        n += 1\n        double = n * 2\n    return double\n" +
		strings.ReplaceAll(then, "LIMIT", limit)
}

// TestBursts checks that the last events of a program whose places were switched off are those of the
// places where it was, with what variables held.
func TestBursts(t *testing.T) {
	t.Parallel()
	const forever, long, alone = "1 << 60", "10_000_000", "spin(LIMIT)\n"
	const wakeSignal = 32 // as in native/bursts.c
	cases := map[string]program{
		"killed at the wall limit": with(spin(forever, alone), func(p *program) { p.Seconds, p.BurstMS = 3, 600_000 }),
		"killed at the CPU limit":  with(spin(forever, alone), func(p *program) { p.CPUS, p.CPUMS, p.BurstMS = 2, 1500, 600_000 }),
		"killed in a thread": with(spin(forever, "import threading\nt = threading.Thread(target=spin, args=(LIMIT,))\nt.start()\nt.join()\n"), func(p *program) {
			p.Seconds, p.BurstMS = 3, 600_000
		}),
		"ends by itself":       with(spin(long, alone), func(p *program) { p.BurstMS = 20 }),
		"ends by an exception": with(spin(long, alone+"1/0\n"), func(p *program) { p.BurstMS = 20 }),
		"another tool at work": with(spin(long, "import sys\nsys.monitoring.use_tool_id(1, 'other')\n"+alone), func(p *program) { p.BurstMS = 20 }),
		// A process inherits this from whoever started the engine.
		"its signal ignored": with(spin(long, alone), func(p *program) { p.BurstMS, p.Ignored = 20, wakeSignal }),
		"its signal blocked": with(spin(long, alone), func(p *program) { p.BurstMS, p.Blocked = 20, wakeSignal }),
	}
	for name, p := range cases {
		p.Plain, p.Events, p.ExactMS = false, 100, 20
		cases[name] = p
	}
	outcomes := run(t, cases)
	for name, p := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Just before a wall limit the processors may be somebody else's: then nothing runs that could be seen.
			const tries = 5
			missing := missingTurns(outcomes[name].recording(p), p.Events)
			for n := 1; missing != "" && n < tries; n++ {
				missing = missingTurns(run(t, map[string]program{name: p})[name].recording(p), p.Events)
			}
			if missing != "" {
				t.Error(missing)
			}
		})
	}
}

// missingTurns says what is missing of last events that go through the loop turn by turn, far beyond what was counted.
func missingTurns(rec trace.Recording, budget int64) string {
	turns, last, counted := 0, int64(0), int64(0)
	for _, hits := range rec.Summary.Lines["main.py"] {
		counted = max(counted, hits)
	}
	for _, e := range rec.Trace.Events {
		if e.Seq <= budget {
			continue
		}
		for _, v := range e.Vars {
			n, err := strconv.ParseInt(string(v.Value), 10, 64)
			if v.Name == "n" && err == nil {
				if n == last+1 {
					turns++
				}
				last = n
			}
		}
	}
	if turns < 100 || last <= 2*counted {
		return fmt.Sprintf("got %d turns in a row up to %d, with at most %d hits counted; want 100 and more, far beyond those", turns, last, counted)
	}
	if rec.Summary.CountsExact {
		return "got exact counts, want not exact"
	}
	return ""
}
