package docker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/docker/docker/client"
)

// attach opens the stream to a container's stdin, stdout and stderr. The
// client's own ContainerAttach waits for the engine's answer without a bound,
// whatever its context says, so the request is made here on the client's connection.
func (e *Engine) attach(ctx context.Context, id string) (conn net.Conn, r *bufio.Reader, err error) {
	err = e.call(ctx, opAttach, e.cfg.CallTimeout, func(ctx context.Context) error {
		conn, err = e.cli.Dialer()(ctx)
		if err != nil {
			return err
		}
		if r, err = upgrade(ctx, conn, e.attachURL(id)); err != nil {
			_ = conn.Close() // the error that counts is the upgrade's
		}
		return err
	})
	return conn, r, err
}

func (e *Engine) attachURL(id string) *url.URL {
	u := &url.URL{
		Scheme: "http", Host: client.DummyHost,
		Path:     "/v" + e.cli.ClientVersion() + "/containers/" + id + "/attach",
		RawQuery: "stream=1&stdin=1&stdout=1&stderr=1",
	}
	if daemon, err := client.ParseHostURL(e.cli.DaemonHost()); err == nil && daemon.Scheme == "tcp" {
		u.Host, u.Path = daemon.Host, daemon.Path+u.Path
	}
	return u
}

// upgrade asks for a raw stream on conn and returns a reader that starts with
// its first byte. The deadline of ctx holds for conn until then.
func upgrade(ctx context.Context, conn net.Conn, u *url.URL) (*bufio.Reader, error) {
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "text/plain")
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "tcp")
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	const buffer = 64 << 10 // a frame's worth
	r := bufio.NewReaderSize(conn, buffer)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // the status says enough
		return nil, fmt.Errorf("the engine answered %s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	return r, conn.SetDeadline(time.Time{})
}
