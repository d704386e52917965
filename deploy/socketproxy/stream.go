package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// halfCloser is a connection of which one direction can end before the other.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// stream joins the caller's connection with one to the engine. Each direction
// ends by itself: a worker that cancels a job hangs up and still reads.
func (p *proxy) stream(w http.ResponseWriter, r *http.Request, c call) error {
	conn, err := p.dial(r.Context())
	if err != nil {
		return err
	}
	engine, ok := conn.(halfCloser)
	if !ok {
		_ = conn.Close()
		return fmt.Errorf("a %T cannot be closed by halves", conn)
	}
	defer func() { _ = engine.Close() }()
	request, err := newRequest(r.Context(), c)
	if err != nil {
		return err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "tcp")
	if err := engine.SetDeadline(time.Now().Add(askTimeout)); err != nil {
		return err
	}
	if err := request.Write(engine); err != nil {
		return err
	}
	fromEngine := bufio.NewReader(engine)
	resp, err := http.ReadResponse(fromEngine, request)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		return &refusal{resp.StatusCode, "the engine gives no stream"}
	}
	if err := engine.SetDeadline(time.Time{}); err != nil {
		return err
	}
	theirs, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer func() { _ = theirs.Close() }()
	caller, ok := theirs.(halfCloser)
	if !ok {
		return nil // only unix sockets are listened on
	}
	const answer = "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
	if _, err := io.WriteString(caller, answer); err != nil {
		return nil // the caller is gone
	}
	var both sync.WaitGroup
	both.Go(func() { pass(engine, buffered) })
	both.Go(func() { pass(caller, fromEngine) })
	both.Wait()
	return nil
}

// pass copies until the end of from, and ends that direction of to.
func pass(to halfCloser, from io.Reader) {
	if _, err := io.Copy(to, from); err != nil {
		// One end is gone: so is the stream.
		_ = to.Close()
		return
	}
	_ = to.CloseWrite()
}
