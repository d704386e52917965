package main

import (
	"context"
	"fmt"

	"github.com/execra/tracefleet/internal/job"
)

// size is how large the result of a program is.
type size struct {
	Program     string `json:"program"`
	Events      int    `json:"events"`
	JSONBytes   int    `json:"json_bytes"`
	StoredBytes int64  `json:"stored_bytes"`
}

// sizes measures (h).
func (b *bench) sizes(ctx context.Context) error {
	programs := []struct{ name, text string }{
		{"print(1)", "print(1)\n"},
		{"a loop over 100 lines", "total = 0\nfor i in range(33):\n    total += i\n    last = i\nprint(total)\n"},
		{"recursion, 1,000 events", "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n\nprint(fib(11))\n"},
		{"10,000 events, growing list", "numbers = []\nfor i in range(10000):\n    numbers.append(i * i)\nprint(len(numbers))\n"},
		{"1 MB of output, untraced", "import random\nprint('x'.join(str(random.random()) for _ in range(50000))[:999990])\n"},
	}
	for i, p := range programs {
		j := hello()
		j.ID = job.NewID(b.report.Started)
		j.Files = map[string]string{"main.py": p.text}
		if i == len(programs)-1 {
			j.Trace.Mode = job.TraceOff
		}
		r, err := b.home.client.do(ctx, j)
		if err != nil {
			return err
		}
		if r.Status != job.StatusOK {
			return fmt.Errorf("%s: %s: %s", p.name, r.Status, r.Headline)
		}
		doc, err := job.EncodeResult(r)
		if err != nil {
			return err
		}
		stored, err := b.home.redis.client.StrLen(ctx, "tf:{"+j.ID+"}:result").Result()
		if err != nil {
			return err
		}
		s := size{Program: p.name, JSONBytes: len(doc), StoredBytes: stored}
		if r.Trace != nil {
			s.Events = len(r.Trace.Events)
		}
		b.report.Sizes = append(b.report.Sizes, s)
	}
	return nil
}
