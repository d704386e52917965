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

// parseEntry reads the fields of an entry's hash. On an error, which wraps ErrCorrupt and names
// the field, the fields that could be read are filled in.
func parseEntry(id string, h map[string]string) (Entry, error) {
	p := fieldParser{h: h}
	e := Entry{
		ID: id, State: State(h["state"]), Status: job.Status(h["status"]), Digest: h["digest"],
		Tenant: h["tenant"], Queue: job.Queue(h["queue"]), Name: h["name"], Worker: h["worker"],
		Class: h["class"], Message: h["message"], CancelRequested: h["cancel"] == "1",
		InputBytes: p.integer("bytes"), Retention: time.Duration(p.integer("retention")) * time.Millisecond,
		Ahead: p.integer("ahead"), Requeues: int(p.integer("requeues")), Fence: p.integer("fence"), Attempts: int(p.integer("attempts")), Lost: int(p.integer("lost")),
		CreatedAt: p.time("created"), QueuedAt: p.time("since"), ClaimedAt: p.time("claimed"), BeatAt: p.time("beat"), FinishedAt: p.time("finished"),
	}
	switch {
	case e.State != StateQueued && e.State != StateRunning && !e.State.Terminal():
		p.fail("state")
	case e.State.Terminal() && !e.Status.Valid():
		p.fail("status")
	case !slices.Contains(job.Queues(), e.Queue):
		p.fail("queue")
	case len(e.Digest) != 64:
		p.fail("digest")
	}
	return e, p.err
}

// fieldParser reads fields and keeps the first error.
type fieldParser struct {
	h   map[string]string
	err error
}

func (p *fieldParser) fail(field string) {
	if p.err == nil {
		p.err = corrupt("entry: field %s is %.40q", field, p.h[field])
	}
}

func (p *fieldParser) integer(field string) int64 {
	s, ok := p.h[field]
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
