package webhook

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
)

// maxURLBytes bounds a callback URL.
const maxURLBytes = 2048

// Targets says where callbacks may go.
type Targets struct {
	// Hosts lists the hosts that may be called: a name, *.name for what is below it, or * for every
	// public host. Empty turns webhooks off.
	Hosts []string
	// Private lists the hosts, in the same form but for *, that may be called although their
	// addresses are not public, and without TLS.
	Private []string
}

// Validate reports every pattern that is none.
func (t Targets) Validate() error {
	var errs []error
	for _, pattern := range append(append([]string{}, t.Hosts...), t.Private...) {
		name := strings.TrimPrefix(pattern, "*.")
		if pattern != "*" && (name == "" || strings.ContainsAny(name, "*/:@ ")) && net.ParseIP(name) == nil {
			errs = append(errs, fmt.Errorf("webhook host: %.80q is neither a host name, *.name nor *", pattern))
		}
	}
	for _, pattern := range t.Private {
		if pattern == "*" {
			errs = append(errs, errors.New("webhook host: private hosts must be named, * is for public ones"))
		}
	}
	return errors.Join(errs...)
}

// Enabled tells whether any host may be called.
func (t Targets) Enabled() bool { return len(t.Hosts)+len(t.Private) > 0 }

// Check tells what is wrong with a callback URL, without resolving its host: the
// address is checked when it is dialed.
func (t Targets) Check(raw string) error {
	if len(raw) > maxURLBytes {
		return fmt.Errorf("must be at most %d bytes", maxURLBytes)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return errors.New("must be an absolute URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("must be an https URL")
	case u.User != nil:
		return errors.New("must not hold a user name or password")
	case u.Fragment != "":
		return errors.New("must not have a fragment")
	case !t.Enabled():
		return errors.New("this server sends no webhooks")
	}
	host := u.Hostname()
	private := matches(t.Private, host)
	if !private && !matches(t.Hosts, host) {
		return errors.New("its host is not on this server's list of hosts to call")
	}
	if private {
		return nil
	}
	if u.Scheme != "https" {
		return errors.New("must be an https URL")
	}
	if ip, err := netip.ParseAddr(host); err == nil && !public(ip) {
		return errors.New("its address is not a public one")
	}
	return nil
}

func matches(patterns []string, host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, pattern := range patterns {
		pattern = strings.ToLower(pattern)
		below, wild := strings.CutPrefix(pattern, "*.")
		if pattern == "*" || pattern == host || wild && strings.HasSuffix(host, "."+below) {
			return true
		}
	}
	return false
}

// errPrivate is what dialing an address that is not public ends with.
var errPrivate = errors.New("the address is not a public one")

// publicOnly is the Control of a dialer: it sees the address that is about to be connected to, after
// the name was resolved, so a name that changes its address between two looks gains nothing.
func publicOnly(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !public(at.Addr()) {
		return errPrivate
	}
	return nil
}

// unicast6 is what is given out of IPv6 to the public. All else is reserved, stays inside a site, or carries an IPv4
// address, in more ways than a list of exceptions would keep up with.
const unicast6 = "2000::/3"

// reserved are ranges that lead to no public host: for IPv4 what netip has no predicate for (this network, carrier NAT, protocol
// assignments, documentation, relays, benchmarks, old class E) and the address at which Azure serves its virtual machines; within
// unicast6 protocol assignments with Teredo, documentation, and 6to4.
var reserved = []string{
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "240.0.0.0/4", "168.63.129.16/32",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
}

// public tells whether ip is an address of the public internet.
func public(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.Is6() && !netip.MustParsePrefix(unicast6).Contains(ip) {
		return false
	}
	for _, r := range reserved {
		if netip.MustParsePrefix(r).Contains(ip) {
			return false
		}
	}
	return true
}
