// Package wire is the language between a worker and the supervisor inside a
// sandbox: length-prefixed frames on the container's stdin and stdout.
//
//	type (1 byte) | length (4 bytes, big endian) | payload
//
// The worker sends one JOB frame. The supervisor sends READY, then any number
// of STDOUT, STDERR and TRACE frames, then END, or FAIL when the sandbox
// itself is broken. Whatever comes from a sandbox is hostile input.
package wire

import "fmt"

// Version is the version of the protocol; READY carries it, and a worker refuses an image of another. It is raised whenever
// a released worker and a newer image, or the other way round, would not understand each other: frames, their
// fields, the layout of the trace memory, SupervisorTasks.
const Version = 2

// Type is a frame's type.
type Type byte

// The frame types.
const (
	Ready  Type = 'R'
	Job    Type = 'J'
	Stdout Type = 'O'
	Stderr Type = 'E'
	Trace  Type = 'T'
	End    Type = 'Z'
	Fail   Type = 'X'
)

// SupervisorTasks is how many threads a supervisor owns from before READY to
// its end: the limit on a sandbox's tasks is this and the job's processes. It
// is as many as can be in the kernel at once, and one more: its seven goroutines, the
// runtime's two processors, its monitor, and the thread that makes threads.
const SupervisorTasks = 12

// MaxChunk is the largest payload of a STDOUT, STDERR or TRACE frame in bytes.
// A TRACE payload is one byte, the area's number, and up to MaxChunk-1 bytes of the area.
const MaxChunk = 64 << 10

// MaxPayload returns the largest payload of a frame of type t in bytes, and
// false for an unknown type.
func MaxPayload(t Type) (int, bool) {
	switch t {
	case Ready, Fail, End:
		return 16 << 10, true
	case Job:
		return 8 << 20, true
	case Stdout, Stderr, Trace:
		return MaxChunk, true
	}
	return 0, false
}

// ReadyInfo is the payload of READY, as JSON: the interpreter is up, the
// tracer imported, nothing of the job known.
type ReadyInfo struct {
	Version int    `json:"v"`
	Python  string `json:"python"`
	Tracer  string `json:"tracer"`
	// Cgroup is "v1", "v2" or "" when the supervisor cannot read its own cgroup.
	Cgroup string `json:"cgroup"`
}

// JobInfo is the payload of JOB, as JSON. Contents are bytes (base64 in JSON).
type JobInfo struct {
	Entrypoint string            `json:"entrypoint"`
	Files      map[string][]byte `json:"files"`
	Stdin      []byte            `json:"stdin"`
	Args       []string          `json:"args"`

	WallMS      int64 `json:"wall_ms"`
	CPUMS       int64 `json:"cpu_ms"`
	MemoryBytes int64 `json:"memory_bytes"`
	OutputBytes int64 `json:"output_bytes"`
	Processes   int64 `json:"processes"`
	OpenFiles   int64 `json:"open_files"`
	FileBytes   int64 `json:"file_bytes"`
	TraceEvents int64 `json:"trace_events"`
	TraceBytes  int64 `json:"trace_bytes"`
	// NProc asks the program to set RLIMIT_NPROC to this on itself; 0 leaves
	// it alone. It is for runtimes whose limit on processes counts more than the
	// program's, such as gVisor. Where it is per user, not per sandbox, it must stay 0.
	NProc int64 `json:"nproc,omitempty"`

	TraceMode   string   `json:"trace_mode"`
	TraceValues bool     `json:"trace_values"`
	Include     []string `json:"include"`
}

// EndInfo is the payload of END, as JSON: what the supervisor saw.
type EndInfo struct {
	// Exited is true when the program ended by exit, with ExitCode; else
	// Signal is the number of the signal that ended it.
	Exited   bool `json:"exited"`
	ExitCode int  `json:"exit_code"`
	Signal   int  `json:"signal"`
	// Killed is what the program was killed for first, one of the Killed
	// constants. A stream that went over its cap is named also when the program
	// ended before it could be killed.
	Killed string `json:"killed"`
	// OOMKills counts the processes of this sandbox that the kernel killed
	// for memory; -1 when the supervisor could not read it.
	OOMKills int64 `json:"oom_kills"`
	// ForksRefused counts forks refused by the limit on processes; -1 unknown.
	ForksRefused int64 `json:"forks_refused"`
	WallMS       int64 `json:"wall_ms"`
	// CPUMS sums the processor time of all processes, without the supervisor's.
	CPUMS int64 `json:"cpu_ms"`
	// MaxMemoryBytes is the sandbox's largest use of memory: processes, files
	// in memory, the supervisor (about 10 MiB at the start). The kernel does not
	// tell when it was, so a program that used less than the container's start shows that.
	MaxMemoryBytes int64 `json:"max_memory_bytes"`
	// MaxProcesses is the most tasks at once, threads included, without the supervisor's.
	MaxProcesses int64 `json:"max_processes"`
	// StdoutBytes and StderrBytes count what the program wrote, also past the cap.
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
}

// FailInfo is the payload of FAIL, as JSON: the sandbox is broken, not the program.
type FailInfo struct {
	Error string `json:"error"`
}

// The reasons of EndInfo.Killed.
const (
	KilledNot    = ""
	KilledWall   = "wall"
	KilledCPU    = "cpu"
	KilledStdout = "stdout"
	KilledStderr = "stderr"
	// KilledHangup: the worker closed its end of the connection while the
	// program ran. It is how a worker ends a run early and still gets the trace,
	// and what happens when a worker dies.
	KilledHangup = "hangup"
)

// maxSignal is the largest number of a signal on Linux.
const maxSignal = 64

// Fault says what is wrong with a report that no honest supervisor writes; it
// is empty when nothing is.
func (e EndInfo) Fault() string {
	switch {
	case e.Exited && (e.ExitCode < 0 || e.ExitCode > 255):
		return fmt.Sprintf("END with exit code %d", e.ExitCode)
	case !e.Exited && (e.Signal < 1 || e.Signal > maxSignal):
		return fmt.Sprintf("END with signal %d", e.Signal)
	case e.OOMKills < -1, e.ForksRefused < -1, e.WallMS < 0, e.CPUMS < 0, e.MaxMemoryBytes < 0, e.MaxProcesses < 0,
		e.StdoutBytes < 0, e.StderrBytes < 0:
		return "END with negative counts"
	}
	switch e.Killed {
	case KilledNot, KilledWall, KilledCPU, KilledStdout, KilledStderr, KilledHangup:
		return ""
	}
	return "END with an unknown reason to kill"
}
