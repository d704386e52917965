package job

import "slices"

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

// Statuses lists every status. When several hold for one run, the first in this
// order is the one it gets; what the others say stays in LimitsHit.
func Statuses() []Status {
	return []Status{
		StatusSystemError, StatusRejected, StatusCanceled, StatusMemoryLimit, StatusTimeLimit,
		StatusOutputLimit, StatusResultInvalid, StatusSignaled, StatusSyntaxError,
		StatusException, StatusExitNonzero, StatusOK,
	}
}

// Valid tells whether s is in the closed list.
func (s Status) Valid() bool { return slices.Contains(Statuses(), s) }

// Abnormal tells whether the program was not left to end in its own way:
// Result.Error says why, and there is no return code.
func (s Status) Abnormal() bool {
	switch s {
	case StatusOK, StatusExitNonzero, StatusException, StatusSyntaxError, StatusSignaled:
		return false
	}
	return true
}

// LimitNames lists every LimitName in the order in which Result.LimitsHit has them.
func LimitNames() []LimitName {
	return []LimitName{
		HitWall, HitCPU, HitMemory, HitProcesses, HitStdout, HitStderr, HitTraceEvents,
		HitTraceBytes, HitFileSize, HitDisk, HitInodes, HitOpenFiles,
	}
}

// Valid tells whether n is in the closed list.
func (n LimitName) Valid() bool { return slices.Contains(LimitNames(), n) }
