package api

import (
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
)

// JobDocument describes the body of a submission for the OpenAPI document. It is read by job.DecodeWith, which is stricter
// than any schema: keys given twice and lone surrogates are refused too.
type JobDocument struct {
	Language    string            `json:"language,omitempty" enum:"python" doc:"The language of the program."`
	Code        string            `json:"code,omitempty" doc:"The source of main.py, in place of files."`
	Files       map[string]string `json:"files,omitempty" doc:"The files of the program by their relative path: at most 100, 1 MiB of text in all."`
	Entrypoint  string            `json:"entrypoint,omitempty" doc:"The file that is run; main.py when left out."`
	Stdin       string            `json:"stdin,omitempty" doc:"What the program reads on standard input, at most 1 MiB."`
	Args        []string          `json:"args,omitempty" nullable:"false" doc:"The arguments of the program."`
	Limits      *LimitsField      `json:"limits,omitempty" doc:"The limits of the run; each has a default."`
	Trace       *TraceField       `json:"trace,omitempty" doc:"What to trace."`
	Queue       string            `json:"queue,omitempty" enum:"interactive,default,batch" doc:"The class of service."`
	Tenant      string            `json:"tenant,omitempty" doc:"On whose behalf. A token that is bound to a tenant allows no other."`
	ID          string            `json:"id,omitempty" pattern:"^([A-Za-z0-9_][A-Za-z0-9._:-]*)?$" doc:"The idempotency key; made by the server when left out."`
	Name        string            `json:"name,omitempty" doc:"What operators see."`
	Labels      map[string]string `json:"labels,omitempty" doc:"Kept with the job."`
	RetentionS  int64             `json:"retention_s,omitempty" doc:"How long the finished job is kept, in seconds."`
	CallbackURL string            `json:"callback_url,omitempty" doc:"Called when the job has ended, signed as Standard Webhooks has it. The server's operator lists the hosts that may be called."`
}

// LimitsField are the limits in a JobDocument. Their bounds are put into the document from package job.
type LimitsField struct {
	WallMS      int64 `json:"wall_ms,omitempty" doc:"Time by the clock, in milliseconds."`
	CPUMS       int64 `json:"cpu_ms,omitempty" doc:"Processor time of all processes, in milliseconds."`
	MemoryBytes int64 `json:"memory_bytes,omitempty" doc:"Memory."`
	OutputBytes int64 `json:"output_bytes,omitempty" doc:"Output on each of stdout and stderr."`
	Processes   int64 `json:"processes,omitempty" doc:"Processes and threads."`
	OpenFiles   int64 `json:"open_files,omitempty" doc:"Open files."`
	FileBytes   int64 `json:"file_bytes,omitempty" doc:"Size of a file that it writes."`
	TraceEvents int64 `json:"trace_events,omitempty" doc:"Events in the trace; counts go on beyond."`
	TraceBytes  int64 `json:"trace_bytes,omitempty" doc:"Size of the trace."`
}

// TraceField are the trace options in a JobDocument.
type TraceField struct {
	Mode    string   `json:"mode,omitempty" enum:"full,lines,calls,off" doc:"lines has no values, calls no lines, off traces nothing."`
	Values  bool     `json:"values,omitempty" doc:"Whether the values of variables are recorded."`
	Include []string `json:"include,omitempty" nullable:"false" doc:"Folders or files of the job whose code is traced."`
}

// TraceDocument is what the API says of a job.
type TraceDocument struct {
	ID              string      `json:"id" doc:"The id of the job."`
	State           string      `json:"state" enum:"queued,running,finished,canceled,dead" doc:"Where it stands. finished, canceled and dead are final and have a result."`
	Status          *string     `json:"status" doc:"How it ended; null before."`
	Queue           string      `json:"queue" doc:"The queue."`
	Tenant          string      `json:"tenant" doc:"On whose behalf."`
	Name            string      `json:"name" doc:"What operators see."`
	Attempts        int         `json:"attempts" doc:"How often it was tried."`
	CancelRequested bool        `json:"cancel_requested" doc:"Whether a user asked for it to be canceled."`
	CreatedAt       time.Time   `json:"created_at" doc:"When it was submitted."`
	StartedAt       *time.Time  `json:"started_at" doc:"When the last attempt began."`
	FinishedAt      *time.Time  `json:"finished_at" doc:"When it ended."`
	Links           Links       `json:"links" doc:"Where to go on."`
	Result          *job.Result `json:"result,omitempty" doc:"The result, once it has ended."`
}

// Links are the paths that go with a job.
type Links struct {
	Self   string `json:"self"`
	Input  string `json:"input"`
	Events string `json:"events"`
	Page   string `json:"page" doc:"The page that shows the trace."`
}

func document(e ledger.Entry) TraceDocument {
	self := Prefix + "/traces/" + e.ID
	return TraceDocument{
		ID: e.ID, State: string(e.State), Status: optional(string(e.Status)), Queue: string(e.Queue), Tenant: e.Tenant, Name: e.Name,
		Attempts: e.Attempts, CancelRequested: e.CancelRequested, CreatedAt: e.CreatedAt, StartedAt: moment(e.ClaimedAt), FinishedAt: moment(e.FinishedAt),
		Links: Links{Self: self, Input: self + "/input", Events: self + "/events", Page: "/traces/" + e.ID},
	}
}

// optional is nil for an empty text, which JSON shows as null.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// moment is nil for a time that has not come.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// EventDocument is the data of one server-sent event.
type EventDocument struct {
	ID     string    `json:"id"`
	State  string    `json:"state"`
	Status *string   `json:"status"`
	At     time.Time `json:"at"`
}

// LimitsDocument is what a job may ask for.
type LimitsDocument struct {
	Minimum          job.Limits `json:"minimum" doc:"The smallest value of each limit."`
	Default          job.Limits `json:"default" doc:"What a job gets that names none."`
	Maximum          job.Limits `json:"maximum" doc:"The largest value that every worker takes now. A server accepts no more."`
	Queues           []string   `json:"queues" nullable:"false"`
	Languages        []string   `json:"languages" nullable:"false"`
	MaxDocumentBytes int64      `json:"max_document_bytes" doc:"Of a Job document."`
	MaxSourceBytes   int64      `json:"max_source_bytes" doc:"Of all files together."`
	MaxFiles         int        `json:"max_files"`
	MaxStdinBytes    int64      `json:"max_stdin_bytes"`
	MaxWaitS         int64      `json:"max_wait_s" doc:"The longest wait of one request, in seconds."`
	SandboxNotice    string     `json:"sandbox_notice" doc:"What to show a person before their program is traced."`
	Webhooks         bool       `json:"webhooks" doc:"Whether callback_url is of use here."`
	Role             string     `json:"role" doc:"The role of the token that asked."`
}

// WebhookDocument is the delivery of a callback.
type WebhookDocument struct {
	ID         string     `json:"id" doc:"The id of the job."`
	EventID    string     `json:"event_id" doc:"The webhook-id header, the same at each attempt."`
	URL        string     `json:"url"`
	State      string     `json:"state" enum:"waiting,sending,delivered,failed"`
	Attempts   int        `json:"attempts"`
	LastStatus int        `json:"last_status" doc:"The HTTP status of the last answer, 0 when there was none."`
	LastError  string     `json:"last_error"`
	NextAt     *time.Time `json:"next_at" doc:"When the next attempt is due."`
}

// DeadLetterList is a list of dead letters.
type DeadLetterList struct {
	Items []DeadLetterItem `json:"items" nullable:"false"`
}

// DeadLetterItem is one dead letter in a list.
type DeadLetterItem struct {
	ID       string    `json:"id"`
	Class    string    `json:"class" doc:"The class of the error that it died of."`
	Message  string    `json:"message"`
	Tenant   string    `json:"tenant"`
	Queue    string    `json:"queue"`
	Name     string    `json:"name"`
	Attempts int       `json:"attempts"`
	BuriedAt time.Time `json:"buried_at"`
}

// DeadLetterDocument is one dead letter with its attempts.
type DeadLetterDocument struct {
	DeadLetterItem
	History []AttemptDocument `json:"history" nullable:"false"`
}

// AttemptDocument is one ended attempt.
type AttemptDocument struct {
	Worker    string    `json:"worker"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	Class     string    `json:"class"`
}

// RequeueRequest chooses dead letters by id, or by a filter; an empty one chooses none.
type RequeueRequest struct {
	IDs    []string       `json:"ids,omitempty" nullable:"false" doc:"These."`
	Filter *RequeueFilter `json:"filter,omitempty" doc:"Or those that it chooses; an empty filter is all."`
	DryRun bool           `json:"dry_run,omitempty" doc:"Change nothing, and say which they would be."`
}

// RequeueFilter chooses dead letters.
type RequeueFilter struct {
	Class  string `json:"class,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	Queue  string `json:"queue,omitempty" enum:"interactive,default,batch"`
	Limit  int    `json:"limit,omitempty" minimum:"1" maximum:"1000" doc:"How many at most; 1,000 when left out."`
}

// RequeueAnswer says what was done.
type RequeueAnswer struct {
	DryRun bool          `json:"dry_run"`
	Items  []RequeueItem `json:"items" nullable:"false"`
}

// RequeueItem is the outcome for one dead letter.
type RequeueItem struct {
	ID      string `json:"id"`
	Outcome string `json:"outcome" enum:"requeued,would_requeue,not_found,failed"`
}
