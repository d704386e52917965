package ledger

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// recheckEvery is how often everybody who waits looks again without having
// been told: the belt to the braces of Redis pub/sub, which may lose a message.
const recheckEvery = 30 * time.Second

// readerBuffer lets a reader of Endings be busy for a moment; what it
// misses, its other ways to learn of it find.
const readerBuffer = 256

// topic is what a listener wants to hear of.
type topic struct{ channel, id string }

// hub shares one subscription among all who wait for news of jobs. It hears the channels that somebody has listened to: a
// worker only that of cancellations, of which there are few. Its goroutine starts with
// the first listener and ends with close.
type hub struct {
	rdb    redis.UniversalClient
	cancel context.CancelFunc
	closed chan struct{} // closed by close
	done   chan struct{} // closed when the goroutine has ended

	mu        sync.Mutex
	ctx       context.Context // of the goroutine; canceled by close
	started   bool
	heard     []string      // the channels that are subscribed to, or will be
	more      chan struct{} // told when heard grew
	listeners map[topic]map[*listener]struct{}
	all       map[chan string]string // readers of Endings, and their channel
}

func (h *hub) init(rdb redis.UniversalClient) {
	h.rdb = rdb
	h.closed, h.done = make(chan struct{}), make(chan struct{})
	h.more = make(chan struct{}, 1)
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.listeners = make(map[topic]map[*listener]struct{})
	h.all = make(map[chan string]string)
}

// listener is somebody who wants to hear of a topic. tell must not block.
type listener struct{ tell func() }

// listen returns a channel that gets an element when there may be news of id on the
// channel of that name; several pieces of news may become one element. leave gives it back.
func (h *hub) listen(channel, id string) (told <-chan struct{}, leave func()) {
	c := make(chan struct{}, 1)
	return c, h.call(channel, id, func() { poke(c) })
}

// call is listen for a function, which is called while the hub is locked.
func (h *hub) call(channel, id string, tell func()) (leave func()) {
	t, c := topic{channel, id}, &listener{tell}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners[t] == nil {
		h.listeners[t] = make(map[*listener]struct{})
	}
	h.listeners[t][c] = struct{}{}
	h.hear(channel)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.listeners[t], c)
		if len(h.listeners[t]) == 0 {
			delete(h.listeners, t)
		}
	}
}

// hear subscribes to a channel, once, and starts the goroutine that does it. h.mu is held.
func (h *hub) hear(channel string) {
	if h.ctx.Err() != nil {
		return
	}
	if !slices.Contains(h.heard, channel) {
		h.heard = append(h.heard, channel)
		poke(h.more)
	}
	if !h.started {
		h.started = true
		go h.run(h.ctx)
	}
}

// subscribe subscribes to the channels that were not heard before. When it fails the client does it with its next connection.
func (h *hub) subscribe(ctx context.Context, sub *redis.PubSub, before int) (heard int) {
	h.mu.Lock()
	channels := slices.Clone(h.heard[before:])
	h.mu.Unlock()
	if len(channels) > 0 {
		_ = sub.Subscribe(ctx, channels...)
	}
	return before + len(channels)
}

// run hears the messages of Redis. The client connects again by itself when the connection breaks, and says so
// with a Subscription; what was missed meanwhile is made good by having everybody look.
func (h *hub) run(ctx context.Context) {
	defer close(h.done)
	sub := h.rdb.Subscribe(ctx)
	defer func() { _ = sub.Close() }() // Nothing is left to lose.
	heard := h.subscribe(ctx, sub, 0)
	messages := sub.ChannelWithSubscriptions()
	ticker := time.NewTicker(recheckEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.more:
			heard = h.subscribe(ctx, sub, heard)
		case <-ticker.C:
			h.tellAll()
		case m := <-messages:
			if msg, ok := m.(*redis.Message); ok {
				h.tell(topic{msg.Channel, msg.Payload})
			} else {
				h.tellAll()
			}
		}
	}
}

func (h *hub) tell(t topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.listeners[t] {
		c.tell()
	}
	for c, channel := range h.all {
		if channel != t.channel {
			continue
		}
		select {
		case c <- t.id:
		default:
		}
	}
}

func (h *hub) tellAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, set := range h.listeners {
		for c := range set {
			c.tell()
		}
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// close ends the goroutine and waits for it. It is idempotent.
func (h *hub) close() {
	h.mu.Lock()
	first := h.ctx.Err() == nil
	h.cancel()
	started := h.started
	if first {
		close(h.closed)
	}
	h.mu.Unlock()
	if started {
		<-h.done
	}
}
