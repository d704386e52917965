package sandbox_test

import (
	"errors"
	"testing"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
)

func TestFits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(l *job.Limits)
		fits   bool
	}{
		"the same":              {func(*job.Limits) {}, true},
		"less time":             {func(l *job.Limits) { l.WallMS, l.CPUMS = 100, 100 }, true},
		"more time":             {func(l *job.Limits) { l.WallMS, l.CPUMS = 300_000, 300_000 }, true},
		"less output and trace": {func(l *job.Limits) { l.OutputBytes, l.TraceBytes, l.FileBytes = 1000, 64<<10, 0 }, true},
		"less memory":           {func(l *job.Limits) { l.MemoryBytes-- }, false},
		"more memory":           {func(l *job.Limits) { l.MemoryBytes++ }, false},
		"fewer processes":       {func(l *job.Limits) { l.Processes-- }, false},
		"more processes":        {func(l *job.Limits) { l.Processes++ }, false},
		"larger files":          {func(l *job.Limits) { l.FileBytes++ }, false},
		"a larger trace":        {func(l *job.Limits) { l.TraceBytes++ }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := job.DefaultLimits()
			c.change(&asked)
			err := sandbox.Fits(job.DefaultLimits(), asked)
			if (err == nil) != c.fits || err != nil && !errors.Is(err, sandbox.ErrMismatch) {
				t.Errorf("got %v, want fits %v", err, c.fits)
			}
		})
	}
}

func TestTruncated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stream sandbox.Stream
		want   bool
	}{
		{sandbox.Stream{}, false},
		{sandbox.Stream{Data: []byte("ab"), Total: 2}, false},
		{sandbox.Stream{Data: []byte("ab"), Total: 3}, true},
		{sandbox.Stream{Total: 1}, true},
	} {
		if got := c.stream.Truncated(); got != c.want {
			t.Errorf("%+v: got %v, want %v", c.stream, got, c.want)
		}
	}
}
