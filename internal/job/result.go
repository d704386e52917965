package job

import (
	"time"

	"github.com/execra/tracefleet/internal/trace"
)

// ResultSchema identifies the Result document.
const ResultSchema = "tracefleet.result/1"

// Result is what became of a Job. Everything but Exception, Summary, Effects, Trace
// and the testimony limits was observed from outside the program.
type Result struct {
	Schema   string `json:"schema"`
	ID       string `json:"id"`
	Status   Status `json:"status"`
	Headline string `json:"headline"`
	// Error is set on abnormal ends only.
	Error      *string     `json:"error"`
	Returncode *int        `json:"returncode"`
	Signal     *string     `json:"signal"`
	LimitsHit  []LimitName `json:"limits_hit"`

	Stdout          string `json:"stdout"`
	Stderr          string `json:"stderr"`
	StdoutBytes     int64  `json:"stdout_bytes"`
	StderrBytes     int64  `json:"stderr_bytes"`
	StdoutTruncated bool   `json:"stdout_truncated"`
	StderrTruncated bool   `json:"stderr_truncated"`
	// Encoding is "utf-8", or "utf-8-lossy" when bytes had to be replaced.
	Encoding string `json:"encoding"`

	// Exception is the one that ended the program, whatever its exit status; nil for none.
	Exception *trace.Exception `json:"exception"`
	Summary   *trace.Summary   `json:"summary"`
	// Effects lists what the program reached for outside itself: files, sockets, other programs.
	Effects []trace.Effect `json:"effects"`
	Usage   Usage          `json:"usage"`
	Limits  Limits         `json:"limits"`
	Runtime Runtime        `json:"runtime"`
	Trace   *trace.Trace   `json:"trace"`
	Tracer  TracerReport   `json:"tracer"`

	Worker     string     `json:"worker"`
	Attempt    int        `json:"attempt"`
	EnqueuedAt time.Time  `json:"enqueued_at"`
	StartedAt  *time.Time `json:"started_at"`
	FinishedAt time.Time  `json:"finished_at"`
}

// The values of Result.Encoding.
const (
	EncodingUTF8      = "utf-8"
	EncodingUTF8Lossy = "utf-8-lossy"
)

// Usage is what the run took, measured by the supervisor and the worker.
type Usage struct {
	WallMS         int64 `json:"wall_ms"`
	CPUMS          int64 `json:"cpu_ms"`
	MaxMemoryBytes int64 `json:"max_memory_bytes"`
	MaxProcesses   int64 `json:"max_processes"`
	QueueMS        int64 `json:"queue_ms"`
	// StartupMS is the wait for a sandbox; 0 when a warm one was there.
	StartupMS int64 `json:"startup_ms"`
}

// Runtime says what ran the program.
type Runtime struct {
	Language   string `json:"language"`
	Version    string `json:"version"`
	Image      string `json:"image"`
	Engine     string `json:"engine"`
	OCIRuntime string `json:"oci_runtime"`
}

// TrustInProcess labels everything the tracer says: it ran inside the
// program's own interpreter, so the program could have forged it.
const TrustInProcess = "in-process"

// TracerReport says how far the trace can be relied on.
type TracerReport struct {
	Trust string `json:"trust"`
	// Complete is true when the program ended in the interpreter's own way and
	// the tracer's end record is there.
	Complete bool `json:"complete"`
	// Detached is true when the program switched the tracer off.
	Detached bool     `json:"detached"`
	Notes    []string `json:"notes"`
}
