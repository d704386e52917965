package api

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// boundedListener accepts only as many connections as there are slots; others wait in the kernel's queue.
// Without it, a flood of connections would use up the descriptors that Redis connections need. While others wait, connections
// on which nothing happens are closed, the longest idle first: clients keep them for their convenience.
type boundedListener struct {
	net.Listener
	slots  chan struct{}
	once   sync.Once
	closed chan struct{}

	mu sync.Mutex
	// idle are the connections on which nothing happens, the longest idle first, and where each stands in it.
	idle   *list.List
	places map[net.Conn]*list.Element
	// starved tells that somebody waits for a slot.
	starved bool
}

func newBoundedListener(l net.Listener, connections int) *boundedListener {
	return &boundedListener{
		Listener: l, slots: make(chan struct{}, connections), closed: make(chan struct{}), idle: list.New(), places: map[net.Conn]*list.Element{},
	}
}

// Accept waits for a connection, and for a slot.
func (l *boundedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if err := l.enter(); err != nil {
		_ = c.Close() // The listener is closed, and nobody serves it any more.
		return nil, err
	}
	return &boundedConn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

// enter waits for a slot.
func (l *boundedListener) enter() error {
	select {
	case l.slots <- struct{}{}:
		return nil
	default:
	}
	l.starve(true)
	defer l.starve(false)
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-l.closed:
		return net.ErrClosed
	}
}

// starve says whether somebody waits for a slot, and gives up the longest idle connection for whoever does.
func (l *boundedListener) starve(starved bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starved = starved
	if first := l.idle.Front(); starved && first != nil {
		c, _ := l.idle.Remove(first).(net.Conn)
		delete(l.places, c)
		go cut(c)
	}
}

// changed is the ConnState of the server.
func (l *boundedListener) changed(c net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if place, ok := l.places[c]; ok {
		l.idle.Remove(place)
		delete(l.places, c)
	}
	switch {
	case state != http.StateIdle:
	case l.starved:
		l.starved = false // One is enough for the one who waits.
		go cut(c)
	default:
		l.places[c] = l.idle.PushBack(c)
	}
}

// cut closes a connection without a word: a farewell over TLS would wait for a client that does not read.
func cut(c net.Conn) {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	_ = c.Close() // It was idle: nothing is lost.
}

// Close ends the listener and an Accept that waits.
func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type boundedConn struct {
	net.Conn
	release func()
}

// Close gives the slot back.
func (c *boundedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
