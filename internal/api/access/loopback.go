package access

import (
	"net"
	"net/netip"
	"strings"
)

// Loopback tells whether a listening address, host:port, is reached from this machine only. A host that
// is a name counts when it is localhost; an empty host is every interface.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && loopbackName(host)
}

// loopbackHost tells the same of a Host header, whose port may be missing.
func loopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return loopbackName(strings.Trim(host, "[]"))
}

func loopbackName(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
