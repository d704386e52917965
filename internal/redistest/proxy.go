package redistest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy stands between a client and a server and can cut the way. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
	// loose are the connections to the server that Cut leaves alone: their answers are lost, and the server ends them.
	loose map[net.Conn]struct{}
	// trap is what CutAt waits for; nil when it waits for nothing.
	trap *trap
}

// Loss says what of a command is lost when the way is cut in the middle of it.
type Loss int

// The two halves of a command's way.
const (
	// LoseCommand: the server never gets it.
	LoseCommand Loss = iota
	// LoseAnswer: the server executes it, and the client does not know.
	LoseAnswer
)

// trap is an order to cut when a client sends something.
type trap struct {
	trigger []byte
	loss    Loss
	sprung  chan struct{}
}

// StartProxy starts a proxy to target, which ends with the test.
func StartProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("start proxy: %v", err)
	}
	p := &Proxy{listener: l, target: target, conns: make(map[net.Conn]struct{}), loose: make(map[net.Conn]struct{})}
	p.wg.Go(p.serve)
	tb.Cleanup(func() {
		_ = l.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Addr is where clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut breaks all connections and refuses new ones until Mend.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.conns {
		_ = c.Close()
	}
}

// CutAt cuts the way, as Cut does, as soon as a client sends trigger, and closes the channel it returns. What is lost of
// the command with the trigger is the caller's choice; for LoseAnswer the trigger should stand near the command's
// end. A later CutAt takes the place of one that still waits, and Mend ends it.
func (p *Proxy) CutAt(trigger string, loss Loss) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = &trap{trigger: []byte(trigger), loss: loss, sprung: make(chan struct{})}
	return p.trap.sprung
}

// Mend lets connections through again.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.trap = false, nil
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.keep(client, server) {
			continue
		}
		p.wg.Go(func() { p.pipe(client, &watcher{Conn: server, proxy: p}) })
		p.wg.Go(func() { p.pipe(server, client) })
	}
}

// keep remembers both ends of a connection; false means that the way is cut.
func (p *Proxy) keep(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		_ = client.Close()
		_ = server.Close()
		return false
	}
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	return true
}

func (p *Proxy) pipe(from, to net.Conn) {
	_, _ = io.Copy(to, from) // A broken connection is what this is for.
	if w, ok := to.(*watcher); ok && w.halved {
		return // The server still reads; the other direction ends when it has.
	}
	// A server whose answers are lost is read to its end: closed with answers unread, the connection would be
	// reset, and the server would drop commands that it has not read yet.
	if p.released(from) {
		_, _ = io.Copy(io.Discard, from)
	}
	_ = from.Close()
	_ = to.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, from)
	delete(p.loose, from)
}

// watcher is the server's end of a connection; it looks for the trap's trigger in what the client sends.
type watcher struct {
	net.Conn
	proxy *Proxy
	// tail is the end of what was sent before: a trigger may come in two parts.
	tail []byte
	// halved says that the client's end is cut and the server was told that nothing follows. Only the goroutine
	// that passes on what the client sends touches it.
	halved bool
}

// Write passes on what a client sends, unless it springs the trap.
func (w *watcher) Write(data []byte) (int, error) {
	t := w.proxy.spring(append(w.tail, data...))
	w.tail = append(w.tail[:0], data[max(0, len(data)-maxTrigger):]...)
	if t == nil {
		return w.Conn.Write(data)
	}
	defer close(t.sprung)
	if t.loss == LoseCommand {
		w.proxy.Cut()
		return 0, net.ErrClosed
	}
	// The client's end goes first: the server may answer before this goroutine runs again.
	w.proxy.release(w.Conn)
	w.proxy.Cut()
	n, err := w.Conn.Write(data)
	if half, ok := w.Conn.(*net.TCPConn); ok && err == nil {
		w.halved = true
		err = half.CloseWrite()
	}
	return n, err
}

// maxTrigger is the longest trigger that is found although it came in two parts.
const maxTrigger = 128

// spring takes the trap when its trigger is in data.
func (p *Proxy) spring(data []byte) *trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trap
	if t == nil || !bytes.Contains(data, t.trigger) {
		return nil
	}
	p.trap = nil
	return t
}

// release lets a connection to the server end by itself: its client's end is cut.
func (p *Proxy) release(server net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, server)
	p.loose[server] = struct{}{}
}

// released says whether a connection to a server was left to end by itself.
func (p *Proxy) released(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, loose := p.loose[conn]
	return loose
}
