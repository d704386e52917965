package job

import (
	"fmt"
	"strconv"
)

// limitField is one field of Limits: its name in JSON and where it is.
type limitField struct {
	name string
	of   func(*Limits) *int64
}

// limitTable has every field of Limits. What decodes, checks, clamps or
// compares limits goes through it, so that no field is forgotten. It is never changed.
var limitTable = [...]limitField{
	{"wall_ms", func(l *Limits) *int64 { return &l.WallMS }},
	{"cpu_ms", func(l *Limits) *int64 { return &l.CPUMS }},
	{"memory_bytes", func(l *Limits) *int64 { return &l.MemoryBytes }},
	{"output_bytes", func(l *Limits) *int64 { return &l.OutputBytes }},
	{"processes", func(l *Limits) *int64 { return &l.Processes }},
	{"open_files", func(l *Limits) *int64 { return &l.OpenFiles }},
	{"file_bytes", func(l *Limits) *int64 { return &l.FileBytes }},
	{"trace_events", func(l *Limits) *int64 { return &l.TraceEvents }},
	{"trace_bytes", func(l *Limits) *int64 { return &l.TraceBytes }},
}

// check reports the fields of l outside MinLimits and max.
func (l Limits) check(f *faults, max Limits) {
	low := MinLimits()
	for _, field := range limitTable {
		got, from, to := *field.of(&l), *field.of(&low), *field.of(&max)
		if got < from || got > to {
			f.add("limits."+field.name, "must be between %d and %d, got %d", from, to, got)
		}
	}
}

// Validate checks that every limit lies between MinLimits and max. The error
// is a *ValidationError.
func (l Limits) Validate(max Limits) error {
	var f faults
	l.check(&f, max)
	return f.err()
}

// Clamp returns l with every field that is over max brought down to it.
func (l Limits) Clamp(max Limits) Limits {
	for _, field := range limitTable {
		*field.of(&l) = min(*field.of(&l), *field.of(&max))
	}
	return l
}

// FormatSeconds writes a limit on time the way results say it: "10s", "1.5s".
func FormatSeconds(ms int64) string {
	return strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64) + "s"
}

// FormatBytes writes a size the way results say it: in the largest of GiB, MiB and
// KiB that divides it, else in bytes.
func FormatBytes(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.size && n%unit.size == 0 {
			return fmt.Sprintf("%d %s", n/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
