package job

import "time"

// Limits bounds one run. All fields are integers in the unit of their name.
type Limits struct {
	WallMS int64 `json:"wall_ms"`
	// CPUMS is processor time, summed over all processes of the job.
	CPUMS       int64 `json:"cpu_ms"`
	MemoryBytes int64 `json:"memory_bytes"`
	// OutputBytes is the cap of each of stdout and stderr.
	OutputBytes int64 `json:"output_bytes"`
	Processes   int64 `json:"processes"`
	OpenFiles   int64 `json:"open_files"`
	FileBytes   int64 `json:"file_bytes"`
	TraceEvents int64 `json:"trace_events"`
	TraceBytes  int64 `json:"trace_bytes"`
}

// Wall is the wall-clock limit.
func (l Limits) Wall() time.Duration { return time.Duration(l.WallMS) * time.Millisecond }

// DefaultLimits are the limits of a Job that names none.
func DefaultLimits() Limits {
	return Limits{
		WallMS: 10_000, CPUMS: 10_000, MemoryBytes: 256 << 20, OutputBytes: 1_000_000,
		Processes: 64, OpenFiles: 32, FileBytes: 16 << 20, TraceEvents: 10_000, TraceBytes: 4 << 20,
	}
}

// MinLimits are the smallest values a Job may ask for.
func MinLimits() Limits {
	return Limits{
		WallMS: 100, CPUMS: 100, MemoryBytes: 32 << 20, OutputBytes: 1_000,
		Processes: 1, OpenFiles: 16, FileBytes: 0, TraceEvents: 0, TraceBytes: 64 << 10,
	}
}

// MaxLimits are the largest values a Job may ask for. An operator may lower them.
func MaxLimits() Limits {
	return Limits{
		WallMS: 300_000, CPUMS: 300_000, MemoryBytes: 4 << 30, OutputBytes: 16_000_000,
		Processes: 512, OpenFiles: 1024, FileBytes: 256 << 20, TraceEvents: 100_000, TraceBytes: 64 << 20,
	}
}
