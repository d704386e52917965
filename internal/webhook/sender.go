package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/detach"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
)

// Times of deliveries.
const (
	sendTimeout = 15 * time.Second
	// lease is longer than an attempt with what is around it.
	lease     = time.Minute
	pollEvery = 5 * time.Second
	// maxRetryAfter bounds how long a receiver may put us off.
	maxRetryAfter = 6 * time.Hour
)

// parallel is how many deliveries one replica has under way at the same time.
const parallel = 8

// schedule returns how long to wait before each attempt after the first.
func schedule() []time.Duration {
	return []time.Duration{5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour}
}

// Ledger is what a Sender needs of package ledger.
type Ledger interface {
	// Get returns what is known of a job.
	Get(ctx context.Context, id string) (ledger.Entry, error)
	// Result returns the result of a finished job.
	Result(ctx context.Context, id string) (job.Result, error)
	// Endings returns the ids of jobs that end from now on.
	Endings(ctx context.Context) (<-chan string, error)
}

var _ Ledger = (*ledger.Ledger)(nil)

// Config is what a Sender needs to know.
type Config struct {
	Targets Targets
	Secrets Secrets
	// BaseURL is put before the paths in events, without a slash at its end; it may be empty.
	BaseURL string
	// UserAgent is what receivers see.
	UserAgent string
	// Retries replaces the waits between attempts, for tests; nil is the schedule of five seconds to five hours.
	Retries []time.Duration
	// Log may be nil.
	Log *zap.Logger
}

// Sender delivers callbacks. Several may run over one Redis.
type Sender struct {
	store   *Store
	ledger  Ledger
	cfg     Config
	public  *http.Client
	private *http.Client
	poke    chan struct{}
}

// NewSender returns a Sender.
func NewSender(s *Store, l Ledger, cfg Config) (*Sender, error) {
	if err := cfg.Targets.Validate(); err != nil {
		return nil, err
	}
	if cfg.Targets.Enabled() && len(cfg.Secrets) == 0 {
		return nil, errors.New("webhooks: a secret is needed to sign them")
	}
	if cfg.Retries == nil {
		cfg.Retries = schedule()
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	return &Sender{
		store: s, ledger: l, cfg: cfg, poke: make(chan struct{}, 1),
		public: client(&net.Dialer{Timeout: sendTimeout, Control: publicOnly}), private: client(&net.Dialer{Timeout: sendTimeout}),
	}, nil
}

// client makes a client that goes nowhere but where it is sent.
func client(d *net.Dialer) *http.Client {
	return &http.Client{
		Timeout: sendTimeout,
		Transport: &http.Transport{
			Proxy: nil, DialContext: d.DialContext, DisableKeepAlives: true, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: sendTimeout, ResponseHeaderTimeout: sendTimeout, MaxResponseHeaderBytes: 16 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Poke makes Run look at once, after a Replay.
func (s *Sender) Poke() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// Run delivers until ctx is done, and then waits for what is under way.
func (s *Sender) Run(ctx context.Context) error {
	endings, err := s.ledger.Endings(ctx)
	if err != nil {
		return fmt.Errorf("webhooks: %w", err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, parallel)
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	s.Poke() // What was left by others is not to wait for the first tick.
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-s.poke:
		case id, ok := <-endings:
			if !ok {
				endings = nil
				continue
			}
			if due, err := s.store.ended(ctx, id); err != nil || !due {
				continue // The next look finds it.
			}
		}
		s.round(ctx, slots, &wg)
	}
}

// round starts what is due, as far as there are slots; the end of a delivery starts another round.
func (s *Sender) round(ctx context.Context, slots chan struct{}, wg *sync.WaitGroup) {
	free := cap(slots) - len(slots)
	if free == 0 {
		return
	}
	ids, err := s.store.take(ctx, free, lease)
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Log.Warn("look for webhooks", zap.Error(err))
		}
		return
	}
	for _, id := range ids {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots; s.Poke() }()
			// An attempt that has begun is finished and written down, also when the process is to end.
			ctx, cancel := detach.Context(ctx, 2*sendTimeout)
			defer cancel()
			if err := s.attempt(ctx, id); err != nil {
				s.cfg.Log.Warn("deliver webhook", zap.String("job_id", id), zap.Error(err))
			}
		})
	}
}

// attempt looks at one delivery and sends it when its job has ended.
func (s *Sender) attempt(ctx context.Context, id string) error {
	d, err := s.store.Get(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return s.store.settle(ctx, Delivery{JobID: id}, 0)
	}
	if err != nil {
		return err
	}
	e, err := s.ledger.Get(ctx, id)
	switch {
	case errors.Is(err, ledger.ErrNotFound), err == nil && !d.Of(e.Digest):
		// The job is gone, or its submission was refused and the id is somebody else's.
		return s.store.Forget(ctx, id, d.Digest)
	case err != nil && !errors.Is(err, ledger.ErrCorrupt):
		return err
	case !e.State.Terminal():
		return s.store.settle(ctx, d, lookAgain)
	}
	body, err := s.event(ctx, e)
	if err != nil {
		return err
	}
	d.Attempts++
	status, putOff, err := s.send(ctx, d, body)
	d.LastStatus, d.LastError = status, ""
	delay := time.Duration(0)
	switch {
	case err == nil:
		d.State = StateDelivered
	case status == http.StatusGone || d.Attempts > len(s.cfg.Retries):
		d.State, d.LastError = StateFailed, err.Error()
	default:
		wait := s.cfg.Retries[d.Attempts-1]
		// Up to a tenth of jitter, so that what failed together is not tried together.
		delay = max(wait+rand.N(wait/10+1), putOff, time.Millisecond)
		d.State, d.LastError = StateSending, err.Error()
	}
	err = s.store.settle(ctx, d, delay)
	if delay > 0 && delay < pollEvery {
		time.AfterFunc(delay+time.Millisecond, s.Poke) // Sooner than the next look.
	}
	return err
}

// event is the body of a callback. It is small: who wants the result fetches it.
func (s *Sender) event(ctx context.Context, e ledger.Entry) ([]byte, error) {
	headline := ""
	if r, err := s.ledger.Result(ctx, e.ID); err == nil {
		headline = r.Headline
	}
	type data struct {
		ID       string `json:"id"`
		State    string `json:"state"`
		Status   string `json:"status"`
		Headline string `json:"headline"`
		URL      string `json:"url"`
	}
	return json.Marshal(struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      data      `json:"data"`
	}{"trace.finished", e.FinishedAt, data{
		ID: e.ID, State: string(e.State), Status: string(e.Status), Headline: headline, URL: s.cfg.BaseURL + "/api/v1/traces/" + e.ID,
	}})
}

// send makes one attempt. status is 0 when there was no answer; putOff is what the receiver asked for.
func (s *Sender) send(ctx context.Context, d Delivery, body []byte) (status int, putOff time.Duration, err error) {
	if err := s.cfg.Targets.Check(d.URL); err != nil {
		return 0, 0, fmt.Errorf("callback_url: %w", err) // The list has changed since.
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, bytes.NewReader(body))
	if err != nil {
		return 0, 0, errors.New("the URL cannot be called")
	}
	now := time.Now()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", s.cfg.UserAgent)
	r.Header.Set("webhook-id", d.EventID)
	r.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	r.Header.Set("webhook-signature", s.cfg.Secrets.Sign(d.EventID, now, body))
	if d.Traceparent != "" {
		r.Header.Set("traceparent", d.Traceparent)
	}
	answer, err := s.clientFor(r.URL).Do(r)
	if err != nil {
		return 0, 0, reason(err)
	}
	_ = answer.Body.Close() // What it says does not matter, and it may be endless.
	if answer.StatusCode >= 200 && answer.StatusCode < 300 {
		return answer.StatusCode, 0, nil
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		putOff = min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	return answer.StatusCode, putOff, fmt.Errorf("answered %d", answer.StatusCode)
}

func (s *Sender) clientFor(u *url.URL) *http.Client {
	if matches(s.cfg.Targets.Private, u.Hostname()) {
		return s.private
	}
	return s.public
}

// reason says in a few words why there was no answer. It must not tell a stranger what our
// network looks like, so addresses and the resolver's words stay out of it.
func reason(err error) error {
	var timeout net.Error
	var dns *net.DNSError
	switch {
	case errors.Is(err, errPrivate):
		return errPrivate
	case errors.As(err, &dns):
		return errors.New("the host name is not known")
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("no answer within %s", sendTimeout)
	}
	return errors.New("the connection failed")
}
