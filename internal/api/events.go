package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/execra/tracefleet/internal/ledger"
)

// Times of a stream of events.
const (
	// commentEvery keeps proxies from closing a stream in which nothing happens.
	commentEvery = 15 * time.Second
	eventTimeout = 10 * time.Second
	streamFor    = time.Hour
)

// errStreamOver is why a stream ends that has been open for streamFor; the browser connects again.
var errStreamOver = errors.New("the stream has been open long enough")

// The names of events.
const (
	eventQueued   = "queued"
	eventStarted  = "started"
	eventFinished = "finished"
)

// events streams what happens to a job until it has ended.
func (a *API) events(w http.ResponseWriter, r *http.Request) error {
	entry, err := a.find(r)
	if err != nil {
		return err
	}
	seen := r.Header.Get("Last-Event-ID")
	if entry.State.Terminal() && seen == finishedID(entry) {
		w.WriteHeader(http.StatusNoContent) // the only answer that keeps a browser from connecting again
		return nil
	}
	if !a.enterWait(r) {
		return problem(http.StatusServiceUnavailable, "busy", "Too many wait", "Too many requests wait for results; try again.").after(retryBusy)
	}
	defer a.leaveWait(r)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	s := &stream{w: w, control: http.NewResponseController(w), seen: seen, sent: map[string]bool{}}
	w.WriteHeader(http.StatusOK)
	ctx, cancel := context.WithTimeoutCause(r.Context(), streamFor, errStreamOver)
	defer cancel()
	ctx, done := a.untilStop(ctx)
	defer done()
	// What goes wrong from here on has no status to say so with: the stream ends, and the browser connects again.
	if err := a.stream(ctx, s, entry); err != nil && ctx.Err() == nil && !errors.Is(err, errClientGone) {
		a.logFault(r, err)
	}
	return nil
}

// stream tells the state of a job, and each that follows.
func (a *API) stream(ctx context.Context, s *stream, entry ledger.Entry) error {
	for {
		if err := s.tell(entry); err != nil || entry.State.Terminal() {
			return err
		}
		next, err := a.change(ctx, s, entry)
		if err != nil {
			return err
		}
		entry = next
	}
}

// change waits for another state, and sends a comment from time to time.
func (a *API) change(ctx context.Context, s *stream, entry ledger.Entry) (ledger.Entry, error) {
	for {
		slice, cancel := context.WithTimeoutCause(ctx, commentEvery, errWaitOver)
		next, err := a.cfg.Book.Change(slice, entry.ID, entry.State)
		over := slice.Err() != nil
		cancel()
		switch {
		case err == nil:
			return next, nil
		case ctx.Err() != nil:
			return entry, context.Cause(ctx)
		case !over:
			return entry, err
		}
		if err := s.write(": waiting\n\n"); err != nil {
			return entry, err
		}
	}
}

// errClientGone means that the client does not take what is sent to it.
var errClientGone = errors.New("the client has gone")

// stream writes server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	// seen is the last event that the client has; begun tells that something was told.
	seen  string
	begun bool
	sent  map[string]bool
}

// happening is one event of a job.
type happening struct {
	name, id, state string
	status          *string
	at              time.Time
}

// happened lists what an entry tells of the way to its state. Who begins to listen late gets it all.
func happened(e ledger.Entry) []happening {
	queued := happening{name: eventQueued, id: "queued-0", state: string(ledger.StateQueued), at: e.CreatedAt}
	if e.State == ledger.StateQueued {
		queued.id = fmt.Sprintf("queued-%d", e.Fence)
		return []happening{queued}
	}
	all := []happening{queued}
	if !e.ClaimedAt.IsZero() {
		all = append(all, happening{name: eventStarted, id: fmt.Sprintf("started-%d", e.Fence), state: string(ledger.StateRunning), at: e.ClaimedAt})
	}
	if e.State.Terminal() {
		all = append(all, happening{name: eventFinished, id: finishedID(e), state: string(e.State), status: optional(string(e.Status)), at: e.FinishedAt})
	}
	return all
}

func finishedID(e ledger.Entry) string { return fmt.Sprintf("finished-%d", e.Fence) }

// tell sends what the client does not know yet.
func (s *stream) tell(e ledger.Entry) error {
	all := happened(e)
	for i, h := range all {
		if h.id == s.seen {
			all = all[i+1:]
			break
		}
	}
	for _, h := range all {
		// Of a job that was given back and taken again, the beginning is not told twice.
		if s.sent[h.id] || s.begun && h.name == eventQueued && e.State != ledger.StateQueued {
			continue
		}
		data, err := json.Marshal(EventDocument{ID: e.ID, State: h.state, Status: h.status, At: h.at})
		if err != nil {
			return err
		}
		if err := s.write(fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", h.id, h.name, data)); err != nil {
			return err
		}
		s.sent[h.id] = true
	}
	s.begun = true
	return nil
}

// write sends a piece of the stream at once; a client that does not take it in time is gone.
func (s *stream) write(text string) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(eventTimeout)) // A test's writer has no deadlines.
	if _, err := s.w.Write([]byte(text)); err != nil {
		return errClientGone
	}
	if err := s.control.Flush(); err != nil {
		return errClientGone
	}
	return nil
}
