package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/execra/tracefleet/internal/cli"
)

// checkTimeout bounds the question whether a server is ready.
const checkTimeout = 5 * time.Second

// check asks the server at the address whether it is ready.
func (c *serveCmd) check(ctx context.Context) error {
	address, err := c.checkURL()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return cli.Usagef("--addr: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		// Nothing is sent that is secret, and what comes back is one number: it does not matter who it is.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, //nolint:gosec // see above
	}}
	got, err := client.Do(r)
	if err != nil {
		return cli.Failf(cli.CodeFailed, "the server does not answer: %w", err)
	}
	_ = got.Body.Close() // Its status is all that counts.
	if got.StatusCode != http.StatusOK {
		return cli.Failf(cli.CodeFailed, "the server is not ready: it answers %d", got.StatusCode)
	}
	return nil
}

// checkURL is where the server is asked, from its own machine: one that listens on every address is asked at loopback.
func (c *serveCmd) checkURL() (string, error) {
	host, port, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return "", cli.Usagef("--addr: %w", err)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http"
	if c.TLSCert != "" {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s/readyz", scheme, net.JoinHostPort(host, port)), nil
}
