package api

import (
	"net"
	"sync"
)

// boundedListener accepts only as many connections as there are slots; others wait in the kernel's queue.
// Without it, a flood of connections would use up the descriptors that Redis connections need.
type boundedListener struct {
	net.Listener
	slots  chan struct{}
	once   sync.Once
	closed chan struct{}
}

// Accept waits for a slot and a connection.
func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &boundedConn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
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
