package ledger

import (
	"slices"
	"strconv"
	"time"

	"github.com/execra/tracefleet/internal/job"
)

// State is where a job stands.
type State string

// The states. The last three are terminal: final, and with a result.
const (
	StateQueued   State = "queued"
	StateRunning  State = "running"
	StateFinished State = "finished"
	StateCanceled State = "canceled"
	// StateDead is a job that the fleet could not run. Its status is
	// system_error and it stands in the dead letters.
	StateDead State = "dead"
)

// Terminal tells whether s is final.
func (s State) Terminal() bool {
	return s == StateFinished || s == StateCanceled || s == StateDead
}

// Entry is what the ledger knows of a job besides its input and result. Times are
// of the clock of Redis, to the millisecond, and zero when the thing has not happened.
type Entry struct {
	ID     string
	State  State
	Status job.Status // empty until State is terminal
	// Digest is the SHA-256 of the job's canonical form, InputBytes the size of its document.
	Digest     string
	InputBytes int64
	Tenant     string
	Queue      job.Queue
	Name       string
	Retention  time.Duration
	// Fence is the number of the newest claim, 0 before the first.
	Fence int64
	// Attempts counts claims, without those that were released uncounted.
	Attempts int
	// Lost counts claims whose worker went away without a word.
	Lost int
	// Worker holds the claim, or held the last one.
	Worker string
	// Ahead is how many jobs the tenant had open in the queue when this one came.
	Ahead int64
	// Requeues counts how often it was taken out of the dead letters to be run again.
	Requeues int
	// CancelRequested is true from the moment a user cancels a running job.
	CancelRequested bool
	// Class and Message say why the last attempt failed; kept for a dead letter.
	Class   string
	Message string

	CreatedAt time.Time
	// QueuedAt is when it was queued last, or claimed if it runs.
	QueuedAt   time.Time
	ClaimedAt  time.Time
	BeatAt     time.Time
	FinishedAt time.Time
}

// Claim is the right to run a job once.
type Claim struct {
	// Fence proves the claim to Heartbeat, Release, Finish and Bury.
	Fence int64
	// Attempt counts from 1.
	Attempt int
	Entry   Entry

	// input is the job's stored input, unless it was missing or too large.
	input []byte
}

// Attempt is one ended attempt at a job.
type Attempt struct {
	Fence  int64
	Worker string
	Start  time.Time
	End    time.Time
	// Class is the reason given to Release, the error class given to Bury,
	// ClassLost, the status that the job finished with, or ClassRequeued: then it is no attempt, but
	// the moment at which the job left the dead letters.
	Class string
}

// entryFields are the fields of an entry's hash that make an Entry or tell what else the ledger has to know of it, in the order
// in which scripts and reads ask for them. The others only tell repetitions of a call from new ones.
var entryFields = []string{
	"state", "fence", "attempts", "worker", "since", "claimed", "shelved", "digest", "bytes", "tenant", "queue", "name", "retention",
	"lost", "ahead", "requeues", "cancel", "class", "created",
	// What a job that can be claimed does not have, or nobody needs to know of it.
	"status", "message", "beat", "finished", "ended", "damaged",
}

// claimFields is how many of entryFields a claim asks for.
const claimFields = 19

// fieldSource is where the fields of something stored come from.
type fieldSource interface {
	// field returns the value of a field, and whether there is one.
	field(name string) (string, bool)
}

// record is what Redis answers when it is asked for entryFields.
type record []any

func (r record) field(name string) (string, bool) {
	i := slices.Index(entryFields, name)
	if i < 0 || i >= len(r) {
		return "", false
	}
	s, ok := r[i].(string)
	return s, ok
}

// text returns a field, "" when there is none.
func (r record) text(name string) string {
	s, _ := r.field(name)
	return s
}

// missing tells that there is no such hash.
func (r record) missing() bool { return !slices.ContainsFunc(r, func(v any) bool { return v != nil }) }

// parseEntry reads the fields of an entry's hash. On an error, which wraps ErrCorrupt and names
// the field, the fields that could be read are filled in.
func parseEntry(id string, r record) (Entry, error) {
	p := fieldParser{from: r}
	e := Entry{
		ID: id, State: State(r.text("state")), Status: job.Status(r.text("status")), Digest: r.text("digest"),
		Tenant: r.text("tenant"), Queue: job.Queue(r.text("queue")), Name: r.text("name"), Worker: r.text("worker"),
		Class: r.text("class"), Message: r.text("message"), CancelRequested: r.text("cancel") == "1",
		InputBytes: p.integer("bytes"), Retention: time.Duration(p.integer("retention")) * time.Millisecond,
		Ahead: p.integer("ahead"), Requeues: int(p.integer("requeues")), Fence: p.integer("fence"), Attempts: int(p.integer("attempts")), Lost: int(p.integer("lost")),
		CreatedAt: p.time("created"), QueuedAt: p.time("since"), ClaimedAt: p.time("claimed"), BeatAt: p.time("beat"), FinishedAt: p.time("finished"),
	}
	switch {
	case e.State != StateQueued && e.State != StateRunning && !e.State.Terminal():
		p.fail("state")
	case e.State.Terminal() && !e.Status.Valid():
		p.fail("status")
	case !e.Queue.Valid():
		p.fail("queue")
	case len(e.Digest) != 64:
		p.fail("digest")
	}
	return e, p.err
}

// fieldParser reads fields and keeps the first error.
type fieldParser struct {
	from fieldSource
	err  error
}

func (p *fieldParser) fail(field string) {
	if p.err == nil {
		s, _ := p.from.field(field)
		p.err = corrupt("entry: field %s is %.40q", field, s)
	}
}

func (p *fieldParser) integer(field string) int64 {
	s, ok := p.from.field(field)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n >= 1<<53 {
		p.fail(field)
		return 0
	}
	return n
}

func (p *fieldParser) time(field string) time.Time {
	n := p.integer(field)
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// hash is a whole hash.
type hash map[string]string

func (h hash) field(name string) (string, bool) {
	s, ok := h[name]
	return s, ok
}
