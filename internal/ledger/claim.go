package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/execra/tracefleet/internal/job"
)

// The reasons and error classes that the ledger itself gives. Other classes are the caller's;
// they are short words without blanks.
const (
	// ReasonDraining given to Release leaves the attempt uncounted: the worker is going away.
	ReasonDraining = "draining"
	// ReasonNoRoom given to Release leaves the attempt uncounted: the worker had no memory for the job.
	ReasonNoRoom = "no_room"
	// ClassLost is an attempt whose worker went away without a word.
	ClassLost = "lost"
	// ClassPoison is a job that took too many workers with it.
	ClassPoison = "poison"
	// ClassArchived is a job whose task an operator archived in the queue.
	ClassArchived = "archived"
	// ClassRequeued in a history is a dead letter's return into the queue.
	ClassRequeued = "requeued"
)

// Claim takes a queued job for a worker. The claim must be kept alive with Hold, or Heartbeat at least
// every Config.BeatEvery, until Finish, Bury or Release. It brings the job's input along, for ClaimedInput.
//
// A dead letter that was Shelved, and whose task is delivered all the same, was run by an operator in the queue's own pages: it is
// claimed as if it had been requeued.
//
// Errors: ErrNotFound; ErrTerminal, for a dead letter ErrDead; ErrBusy while somebody holds a claim, even a
// stale one: only Reclaim takes it away. With ErrCorrupt, and then only, the Claim is valid although there is
// an error: the entry is damaged, and the holder should Finish it as rejected.
func (l *Ledger) Claim(ctx context.Context, id, worker string) (Claim, error) {
	if !job.ValidID(id) {
		return Claim{}, fmt.Errorf("claim %.40q: %w", id, ErrNotFound)
	}
	got, err := claimScript.Run(ctx, l.rdb, jobKeys(id), word(worker), l.cfg.OpenTTL.Milliseconds(), rand.Text(),
		maxInputBytes+sealOverhead, id).Slice()
	if err != nil {
		return Claim{}, reply("claim", id, err)
	}
	code, rest := codeOf(got)
	switch code {
	case "missing":
		return Claim{}, fmt.Errorf("claim %s: %w", id, ErrNotFound)
	case "terminal":
		if State(text(rest, 0)) == StateDead {
			return Claim{}, fmt.Errorf("claim %s: %w", id, ErrDead)
		}
		return Claim{}, fmt.Errorf("claim %s: %w: %s", id, ErrTerminal, text(rest, 0))
	case "busy":
		return Claim{}, fmt.Errorf("claim %s: %w: %s", id, ErrBusy, text(rest, 0))
	case "revived":
		l.revived(ctx, id, entryOf(rest, 0))
	}
	// The reconciler looks as soon as the claim can be stale.
	l.news.claimed(ctx, id)
	c, err := newClaim(id, entryOf(rest, 0))
	if err != nil {
		l.cfg.Metrics.corrupt.Inc()
		return c, fmt.Errorf("claim %s: %w", id, err)
	}
	if input := text(rest, 1); input != "" {
		c.input = []byte(input)
	}
	return c, nil
}

func newClaim(id string, r record) (Claim, error) {
	e, err := parseEntry(id, r)
	if err == nil && r.text("damaged") != "" {
		err = corrupt("entry: it had no valid state")
	}
	return Claim{Fence: e.Fence, Attempt: e.Attempts, Entry: e}, err
}

// Heartbeat keeps a claim alive. canceled tells that a user wants the job canceled.
// Errors: ErrFenced when the claim is lost; ErrNotFound.
func (l *Ledger) Heartbeat(ctx context.Context, id string, fence int64) (canceled bool, err error) {
	got, err := beatScript.Run(ctx, l.rdb, jobKeys(id), fence).Slice()
	if err != nil {
		return false, reply("heartbeat", id, err)
	}
	code, rest := codeOf(got)
	if err := l.refusal("heartbeat", id, code, rest); err != nil {
		return false, err
	}
	return text(rest, 0) == "1", nil
}

// Release gives a claimed job back, to be claimed again. The caller sees to it that the queue delivers it
// again. reason is an error class, for the history; with ReasonDraining or ReasonNoRoom the attempt is not counted. A
// repetition does nothing.
// Errors: ErrFenced; ErrTerminal never: a claim of a terminal job is fenced; ErrNotFound.
func (l *Ledger) Release(ctx context.Context, id string, fence int64, reason string) error {
	counted := 1
	if reason == ReasonDraining || reason == ReasonNoRoom {
		counted = 0
	}
	got, err := releaseScript.Run(ctx, l.rdb, jobKeys(id), fence, word(reason), l.cfg.OpenTTL.Milliseconds(), counted).Slice()
	if err != nil {
		return reply("release", id, err)
	}
	code, rest := codeOf(got)
	if err := l.refusal("release", id, code, rest); err != nil {
		return err
	}
	l.cfg.Metrics.released.WithLabelValues(releaseLabel(reason)).Inc()
	l.announce(ctx, id)
	return nil
}

// Reclaim takes a stale claim away from a worker that is gone. It returns the
// state the job is in then: StateQueued when it must be delivered again; StateRunning when the claim turned
// out to be alive; StateDead when the job was lost Config.MaxLost times and was buried as
// ClassPoison; StateCanceled when a user had asked for it.
// Errors: ErrNotFound.
func (l *Ledger) Reclaim(ctx context.Context, id string) (State, error) {
	got, err := reclaimScript.Run(ctx, l.rdb, jobKeys(id), l.cfg.StaleAfter.Milliseconds(), l.cfg.MaxLost,
		"ledger", l.cfg.OpenTTL.Milliseconds(), rand.Text()).Slice()
	if err != nil {
		return "", reply("reclaim", id, err)
	}
	code, rest := codeOf(got)
	switch code {
	case "missing":
		return "", fmt.Errorf("reclaim %s: %w", id, ErrNotFound)
	case "alive":
		return StateRunning, nil
	case "queued":
		l.cfg.Metrics.lost.Inc()
		l.announce(ctx, id)
		return StateQueued, nil
	}
	l.cfg.Metrics.lost.Inc()
	c, err := newClaim(id, entryOf(rest, 0))
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return "", err
	}
	return l.endLost(ctx, c)
}

// endLost ends a job that was lost and shall not run again.
func (l *Ledger) endLost(ctx context.Context, c Claim) (State, error) {
	e := c.Entry
	if e.CancelRequested {
		r, err := l.unrun(ctx, e, job.StatusCanceled, "canceled by a user; its worker was lost meanwhile")
		if err != nil {
			return "", err
		}
		return StateCanceled, l.Finish(ctx, e.ID, c.Fence, r)
	}
	message := "lost with its worker " + strconv.Itoa(e.Lost) + " times"
	r, err := l.unrun(ctx, e, job.StatusSystemError, message)
	if err != nil {
		return "", err
	}
	return StateDead, l.Bury(ctx, e.ID, c.Fence, ClassPoison, message, r)
}

// refusal turns the code of a script that needs a claim into an error.
func (l *Ledger) refusal(op, id, code string, rest []any) error {
	switch code {
	case "ok":
		return nil
	case "missing":
		return fmt.Errorf("%s %s: %w", op, id, ErrNotFound)
	case "terminal":
		return fmt.Errorf("%s %s: %w: %s", op, id, ErrTerminal, text(rest, 0))
	default:
		l.cfg.Metrics.fenced.Inc()
		return fmt.Errorf("%s %s: %w: it is %.40s", op, id, ErrFenced, text(rest, 0))
	}
}

// word makes s one word of at most 120 bytes of ASCII, as the history needs.
func word(s string) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, s[:min(len(s), 120)])
	if s == "" {
		return "-"
	}
	return s
}
