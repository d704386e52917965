package api

import (
	"net/http"

	"github.com/execra/tracefleet/internal/api/access"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/trace"
)

// Prefix is the path of version 1.
const Prefix = "/api/v1"

// operation is one row of the table that everything is made from.
type operation struct {
	id           string
	method, path string
	// role is the weakest role that may call it.
	role    access.Role
	tag     string
	summary string
	doc     string
	params  []param
	// body is the type of the request's body, bodyType its media type; a nil body is none.
	body     any
	bodyType string
	answers  []reply
	run      func(*API, http.ResponseWriter, *http.Request) error
}

// reply is one answer in the document. Problems that every operation can answer with are added by themselves.
type reply struct {
	status int
	doc    string
	// body is a value of the type; nil with a mediaType is any document of it, nil without is no body.
	body any
	// others are the types of other formats of the same answer.
	others    []any
	mediaType string
	headers   map[string]string
}

// The parameters that several operations have.
func idParam() param {
	return param{name: "id", in: "path", doc: "The id of the job.", kind: "string", pattern: "^[A-Za-z0-9_][A-Za-z0-9._:-]*$", max: job.MaxIDBytes, required: true}
}

func waitParams() []param {
	return []param{
		{name: "wait", in: "query", kind: "string", example: "25s",
			doc: "Wait this long for the result, in seconds or as 25s, up to 30s. When the time is over the answer is the state as it is: no error."},
		{name: "Prefer", in: "header", kind: "string", example: "wait=25", doc: "The same as RFC 7240 has it; answered by Preference-Applied."},
	}
}

// formats are the values of ?format=.
func formats() []string { return []string{"json", "execra", "pytutor", "chrome"} }

func operations() []operation {
	var all []operation
	all = append(all, traceOperations()...)
	all = append(all, batchOperations()...)
	all = append(all, webhookOperations()...)
	all = append(all, deadLetterOperations()...)
	return append(all, operation{
		id: "getLimits", method: http.MethodGet, path: "/limits", role: access.RoleRead, tag: "About",
		summary: "What a job may ask for", doc: "The smallest, default and largest value of each limit, and the other bounds of this server.",
		answers: []reply{{status: 200, doc: "The limits.", body: LimitsDocument{}}}, run: (*API).limits,
	})
}

// The headers that several answers have.
const (
	docApplied  = "wait and the seconds, when Prefer was followed."
	docReplayed = "true when the job was there already."
	docRetry    = "Seconds until it is worth asking again, while it has not ended."
)

func traceOperations() []operation {
	finished := reply{status: 200, doc: "The trace, with its result when it has ended.", body: TraceDocument{},
		others:  []any{trace.PyTutorDocument{}, trace.ChromeDocument{}},
		headers: map[string]string{"Retry-After": docRetry, "ETag": "Of a trace that has ended.", "Preference-Applied": docApplied}}
	return []operation{
		{
			id: "submitTrace", method: http.MethodPost, path: "/traces", role: access.RoleSubmit, tag: "Traces",
			summary: "Submit a program",
			doc: "Takes a Job document. Its id is the idempotency key: the same id with the same input answers with the same job, " +
				"with other input with 422. Without an id each request makes a job of its own.",
			params: append(waitParams(), param{name: "Idempotency-Key", in: "header", kind: "string", doc: "Another way to give the id."},
				param{name: "traceparent", in: "header", kind: "string", doc: "W3C Trace Context; kept as a label of the job and sent with its webhook."}),
			body: JobDocument{}, bodyType: "application/json",
			answers: []reply{
				{status: 200, doc: "It ended within the wait; the result is in the answer.", body: TraceDocument{}, headers: map[string]string{
					"Location": "The trace.", "Idempotent-Replayed": docReplayed, "Preference-Applied": docApplied}},
				{status: 202, doc: "It is in the queue.", body: TraceDocument{}, headers: map[string]string{
					"Location": "Where to ask for the result.", "Retry-After": docRetry, "Idempotent-Replayed": docReplayed, "Preference-Applied": docApplied}},
			},
			run: (*API).submit,
		},
		{
			id: "getTrace", method: http.MethodGet, path: "/traces/{id}", role: access.RoleRead, tag: "Traces", summary: "State and result of a trace",
			doc: "Answers 200 in every state. Other formats than json answer with the document itself, and 409 while there is none.",
			params: append(append([]param{idParam()}, waitParams()...),
				param{name: "format", in: "query", kind: "string", enum: formats(),
					doc: "json is the whole result; execra the events and summary of Execra's tracer; pytutor a trace for Python Tutor, at most 1,000 steps; chrome a trace for Perfetto."},
				param{name: "If-None-Match", in: "header", kind: "string", doc: "An ETag; answered by 304 when nothing has changed."}),
			answers: []reply{finished, {status: 304, doc: "Nothing has changed.", headers: map[string]string{"ETag": "The same.", "Preference-Applied": docApplied}},
				{status: 409, doc: "There is no result yet to convert.", body: Problem{}, headers: problemHeaders(409)}},
			run: (*API).get,
		},
		{
			id: "getInput", method: http.MethodGet, path: "/traces/{id}/input", role: access.RoleRead, tag: "Traces", summary: "The job that was submitted",
			doc: "The Job document with its defaults filled in: what the viewer shows the source from.", params: []param{idParam()},
			answers: []reply{{status: 200, doc: "The job.", body: JobDocument{}}}, run: (*API).input,
		},
		{
			id: "followTrace", method: http.MethodGet, path: "/traces/{id}/events", role: access.RoleRead, tag: "Traces", summary: "Follow a trace",
			doc: "Server-sent events: queued, started, finished. Each holds id, state and, once it has ended, status. After finished the stream ends; " +
				"who connects again with its Last-Event-ID gets 204.",
			params: []param{idParam(), {name: "Last-Event-ID", in: "header", kind: "string", doc: "The last event that was seen."}},
			answers: []reply{{status: 200, doc: "The events.", mediaType: "text/event-stream"},
				{status: 204, doc: "There is nothing more to come."}},
			run: (*API).events,
		},
		{
			id: "cancelTrace", method: http.MethodDelete, path: "/traces/{id}", role: access.RoleSubmit, tag: "Traces", summary: "Cancel a trace",
			doc: "A queued job never runs; a running one is killed within a second or so and keeps what there is of its trace. Canceling again changes nothing.", params: []param{idParam()},
			answers: []reply{{status: 200, doc: "It has ended, now or before.", body: TraceDocument{}}, {status: 202, doc: "Its worker is told.", body: TraceDocument{}, headers: map[string]string{"Retry-After": docRetry}}},
			run:     (*API).cancel,
		},
	}
}

func webhookOperations() []operation {
	return []operation{
		{
			id: "getWebhook", method: http.MethodGet, path: "/traces/{id}/webhook", role: access.RoleRead, tag: "Webhooks", summary: "The delivery of a webhook",
			doc: "How far the callback of a job has come.", params: []param{idParam()},
			answers: []reply{{status: 200, doc: "The delivery.", body: WebhookDocument{}}}, run: (*API).webhook,
		},
		{
			id: "replayWebhook", method: http.MethodPost, path: "/traces/{id}/webhook", role: access.RoleSubmit, tag: "Webhooks", summary: "Send a webhook again",
			doc: "Sends it at once, with all retries anew. The event id stays the same.", params: []param{idParam()},
			answers: []reply{{status: 202, doc: "It is being sent.", body: WebhookDocument{}}}, run: (*API).replayWebhook,
		},
	}
}

func deadLetterOperations() []operation {
	filter := []param{
		{name: "class", in: "query", kind: "string", doc: "Only those with this error class."},
		{name: "tenant", in: "query", kind: "string", doc: "Only those of this tenant."},
		{name: "queue", in: "query", kind: "string", enum: []string{"interactive", "default", "batch"}, doc: "Only those of this queue."},
		{name: "since", in: "query", kind: "string", example: "2026-11-30T12:00:00Z", doc: "Only those buried at this time or later."},
		{name: "until", in: "query", kind: "string", example: "2026-11-30T12:00:00Z", doc: "Only those buried at this time or earlier."},
		{name: "limit", in: "query", kind: "integer", max: maxDeadLetters, doc: "How many at most; 50 when left out."},
	}
	return []operation{
		{
			id: "listDeadLetters", method: http.MethodGet, path: "/dead-letters", role: access.RoleOperate, tag: "Dead letters", summary: "List dead letters",
			doc: "Jobs that the fleet could not run, the newest burial first.", params: filter,
			answers: []reply{{status: 200, doc: "The dead letters.", body: DeadLetterList{}}}, run: (*API).deadLetters,
		},
		{
			id: "getDeadLetter", method: http.MethodGet, path: "/dead-letters/{id}", role: access.RoleOperate, tag: "Dead letters", summary: "One dead letter",
			doc: "With its attempts.", params: []param{idParam()},
			answers: []reply{{status: 200, doc: "The dead letter.", body: DeadLetterDocument{}}}, run: (*API).deadLetter,
		},
		{
			id: "requeueDeadLetters", method: http.MethodPost, path: "/dead-letters/requeue", role: access.RoleOperate, tag: "Dead letters", summary: "Run dead letters again",
			doc:  "Those that are named, or that the filter chooses, at most 1,000 at a time. With dry_run nothing is changed, and the answer says which they would be.",
			body: RequeueRequest{}, bodyType: "application/json",
			answers: []reply{{status: 200, doc: "What was done.", body: RequeueAnswer{}}}, run: (*API).requeue,
		},
	}
}
