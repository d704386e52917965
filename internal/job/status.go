package job

// Status is how a job ended. The list is closed.
type Status string

// The statuses. A failing program is a result like any other; only
// StatusSystemError means that the fleet itself failed.
const (
	StatusOK            Status = "ok"
	StatusExitNonzero   Status = "exit_nonzero"
	StatusException     Status = "exception"
	StatusSyntaxError   Status = "syntax_error"
	StatusSignaled      Status = "signaled"
	StatusTimeLimit     Status = "time_limit"
	StatusMemoryLimit   Status = "memory_limit"
	StatusOutputLimit   Status = "output_limit"
	StatusResultInvalid Status = "result_invalid"
	StatusCanceled      Status = "canceled"
	StatusRejected      Status = "rejected"
	StatusSystemError   Status = "system_error"
)

// LimitName names a limit that a run met, as listed in Result.LimitsHit.
type LimitName string

// The limits that can be hit. HitOpenFiles, HitDisk, HitInodes and
// HitFileSize rest on the tracer's testimony and may be missing.
const (
	HitWall        LimitName = "wall"
	HitCPU         LimitName = "cpu"
	HitMemory      LimitName = "memory"
	HitProcesses   LimitName = "processes"
	HitStdout      LimitName = "stdout"
	HitStderr      LimitName = "stderr"
	HitTraceEvents LimitName = "trace_events"
	HitTraceBytes  LimitName = "trace_bytes"
	HitFileSize    LimitName = "file_size"
	HitDisk        LimitName = "disk"
	HitInodes      LimitName = "inodes"
	HitOpenFiles   LimitName = "open_files"
)
