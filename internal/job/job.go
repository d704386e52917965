// Package job holds what travels through the fleet: the Job a user submits, the
// Limits it runs under, and the Result that comes back. It knows nothing of
// Redis, Docker or asynq.
//
// Every type here is a plain value. Values may be read by several goroutines
// at once as long as nobody changes them.
package job

import (
	"slices"
	"time"
)

// SandboxNotice is shown to a person before their program is traced. Execra's
// user interface shows the same sentence, so it must not be reworded.
const SandboxNotice = "⚠️ Execra will execute this code in a sandboxed environment. Review before tracing."

// LanguagePython is the only language the sandbox image can run.
const LanguagePython = "python"

// DefaultEntrypoint is the file that runs when a Job names none.
const DefaultEntrypoint = "main.py"

// Queue names one of the three classes of service.
type Queue string

// The queues, from the most to the least urgent.
const (
	QueueInteractive Queue = "interactive"
	QueueDefault     Queue = "default"
	QueueBatch       Queue = "batch"
)

// Queues lists every queue, most urgent first.
func Queues() []Queue { return []Queue{QueueInteractive, QueueDefault, QueueBatch} }

// Valid tells whether q is one of Queues.
func (q Queue) Valid() bool { return slices.Contains(Queues(), q) }

// Job is one program to trace. It is complete: after Decode or Normalize every
// default is filled in and every rule of Validate holds.
type Job struct {
	Language   string            `json:"language"`
	Entrypoint string            `json:"entrypoint"`
	Files      map[string]string `json:"files"`
	Stdin      string            `json:"stdin"`
	Args       []string          `json:"args"`
	Limits     Limits            `json:"limits"`
	Trace      TraceOptions      `json:"trace"`
	Queue      Queue             `json:"queue"`
	Tenant     string            `json:"tenant"`
	// ID is the idempotency key. Empty means that the fleet picks one.
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Labels     map[string]string `json:"labels"`
	RetentionS int64             `json:"retention_s"`
}

// Retention is how long the job's input and result are kept once it is finished.
func (j Job) Retention() time.Duration { return time.Duration(j.RetentionS) * time.Second }

// TraceMode says how much the tracer records.
type TraceMode string

// The trace modes. TraceLines leaves out values, TraceCalls leaves out line
// events and line counts as well, TraceOff runs the program untraced.
const (
	TraceFull  TraceMode = "full"
	TraceLines TraceMode = "lines"
	TraceCalls TraceMode = "calls"
	TraceOff   TraceMode = "off"
)

// TraceOptions says what to trace.
type TraceOptions struct {
	Mode TraceMode `json:"mode"`
	// Values asks for the values of variables; it has an effect in TraceFull only.
	Values bool `json:"values"`
	// Include lists folders or files of the job, relative to its root, whose
	// code counts as user code. "." is the whole job.
	Include []string `json:"include"`
}
