package ledger

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/detach"
)

const (
	// newsDelay is how long news of jobs wait for more: a busy worker has some thousand a second.
	newsDelay = 5 * time.Millisecond
	// newsTimeout bounds the sending of them.
	newsTimeout = 5 * time.Second
	// maxNews bounds how much goes at once: a script stops all of Redis.
	maxNews = 100
)

// news tells the index of open jobs, in one go for many, which were claimed and which have ended. Until then the index
// says a little too much, and when Redis is away or the worker dies it stays so until Overdue looks at the job.
// What the Ledger itself asks of the index it asks after all its news. It is safe for concurrent use.
type news struct {
	rdb   redis.UniversalClient
	stale time.Duration

	turn chan struct{} // holds an element while something is sent

	mu      sync.Mutex
	due     bool                // a timer is set
	claims  map[string]struct{} // jobs that were claimed and have not ended
	endings []string
}

func newNews(rdb redis.UniversalClient, stale time.Duration) *news {
	return &news{rdb: rdb, stale: stale, turn: make(chan struct{}, 1), claims: map[string]struct{}{}}
}

// claimed has the reconciler look at a job as soon as its claim can be stale.
func (n *news) claimed(ctx context.Context, id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.claims[id] = struct{}{}
	n.sendLater(ctx)
}

// ended takes a job out of the index.
func (n *news) ended(ctx context.Context, id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.claims, id)
	n.endings = append(n.endings, id)
	n.sendLater(ctx)
}

// sendLater is called with mu held.
func (n *news) sendLater(ctx context.Context) {
	if n.due {
		return
	}
	n.due = true
	ctx = context.WithoutCancel(ctx) // Also when whoever brings the news is gone by then.
	time.AfterFunc(newsDelay, func() { n.send(ctx) })
}

// send sends what there is, also when ctx has ended, and returns when all that was told before has been sent. While
// somebody else sends, which takes newsTimeout at most, it waits no longer than ctx.
func (n *news) send(ctx context.Context) {
	select {
	case n.turn <- struct{}{}:
	default:
		select {
		case n.turn <- struct{}{}:
		case <-ctx.Done():
			return // What there is goes with the timer.
		}
	}
	defer func() { <-n.turn }()
	n.mu.Lock()
	claims, endings := map[string]struct{}(nil), n.endings
	n.due, n.endings = false, nil
	if len(n.claims) > 0 {
		// What is sent belongs to this call; an empty map stays for the next claims.
		claims, n.claims = n.claims, map[string]struct{}{}
	}
	n.mu.Unlock()
	if len(claims)+len(endings) == 0 {
		return
	}
	ctx, cancel := detach.Context(ctx, newsTimeout)
	defer cancel()
	ids := make([]any, 0, len(claims)+len(endings))
	for id := range claims {
		ids = append(ids, id)
	}
	for _, id := range endings {
		ids = append(ids, id)
	}
	for claimed := len(claims); len(ids) > 0; {
		part := ids[:min(maxNews, len(ids))]
		// What is lost here Overdue finds.
		_ = newsScript.Run(ctx, n.rdb, []string{openKey, openOfKey}, append([]any{n.stale.Milliseconds(), min(claimed, len(part))}, part...)...).Err()
		ids, claimed = ids[len(part):], max(0, claimed-len(part))
	}
}
