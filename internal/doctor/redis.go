package doctor

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/execra/tracefleet/internal/ledger"
)

// Bounds from which on a Redis is worth a warning.
const (
	// nearlyFull is a share of its memory: at its limit Redis refuses every job and result.
	nearlyFull   = 0.8
	maxClockSkew = 5 * time.Second
)

// Redis judges the Redis at address by what ledger.CheckServer found out.
func Redis(address string, facts ledger.ServerFacts, err error) []Row {
	switch {
	case facts.Embedded:
		return []Row{{
			Name: "redis", Status: Warn, Detail: address + ", embedded in a worker: nothing outlives it",
			Remedy: "use a real Redis for anything that matters",
		}}
	case facts.Version == "" && err != nil:
		return []Row{{
			Name: "redis", Status: Fail, Detail: fmt.Sprintf("%s: %v", address, err),
			Remedy: ledger.Advice(err),
		}}
	}
	rows := []Row{{Name: "redis", Status: OK, Detail: fmt.Sprintf("%s, Redis %s, %s", address, facts.Version, facts.Mode)}}
	if err != nil {
		rows[0] = Row{Name: "redis", Status: Fail, Detail: fmt.Sprintf("%s: %v", address, err), Remedy: "see its settings in docs/operations.md"}
	}
	return append(rows, eviction(facts), persistence(facts), memory(facts), clock(facts))
}

// RedisAccess judges how the Redis of a URL is reached: with which proof and over which wire. passwordFile is true when
// the password is in a file.
func RedisAccess(address string, passwordFile bool) []Row {
	u, err := url.Parse(firstHost(address))
	if err != nil {
		return nil // it cannot be reached either, and that was said
	}
	near := u.Scheme == "unix" || u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	_, password := u.User.Password()
	rows := []Row{{Name: "redis access", Status: OK, Detail: "with a password, as " + cmp.Or(u.User.Username(), "the default user")}}
	switch {
	case !password && !passwordFile && near:
		rows[0].Detail = "without a password, on this machine only"
	case !password && !passwordFile:
		rows[0] = Row{
			Name: "redis access", Status: Warn, Detail: "without a password: whoever reaches it reads programs and results, and has jobs run",
			Remedy: "make users with deploy/redis/users.sh, and give their passwords by --redis-password-file",
		}
	}
	switch {
	case strings.HasPrefix(u.Scheme, "rediss"):
		rows = append(rows, Row{Name: "redis wire", Status: OK, Detail: "TLS"})
	case near:
		rows = append(rows, Row{Name: "redis wire", Status: OK, Detail: "does not leave this machine"})
	default:
		rows = append(rows, Row{
			Name: "redis wire", Status: Warn, Detail: "not encrypted: programs, results and the password can be read on the way",
			Remedy: "use rediss://, unless the network between is yours alone",
		})
	}
	return rows
}

// Workers judges how many live workers take jobs from the Redis.
func Workers(n int) Row {
	if n == 0 {
		return Row{Name: "workers", Status: Warn, Detail: "none takes jobs: what is submitted waits", Remedy: "start one; worker doctor says what it lacks"}
	}
	return Row{Name: "workers", Status: OK, Detail: fmt.Sprintf("taking jobs: %d", n)}
}

// firstHost is a URL with the first of its hosts only.
func firstHost(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	host, _, _ := strings.Cut(rest[:end], ",")
	return scheme + "://" + host + rest[end:]
}

func eviction(f ledger.ServerFacts) Row {
	r := Row{Name: "redis policy", Status: OK, Detail: "maxmemory-policy " + f.Policy}
	if f.Policy != "noeviction" {
		r.Status, r.Remedy = Fail, "set maxmemory-policy noeviction: any other may drop jobs"
	}
	return r
}

func persistence(f ledger.ServerFacts) Row {
	if f.AppendOnly {
		return Row{Name: "redis persistence", Status: OK, Detail: "append-only file"}
	}
	return Row{
		Name: "redis persistence", Status: Warn, Detail: "no append-only file: a crash of Redis loses jobs",
		Remedy: "set appendonly yes and appendfsync everysec",
	}
}

func memory(f ledger.ServerFacts) Row {
	const name = "redis memory"
	used := fmt.Sprintf("%d MiB used", f.UsedMemoryBytes>>20)
	switch {
	case f.MaxMemoryBytes == 0:
		return Row{Name: name, Status: Warn, Detail: used + ", no limit", Remedy: "set maxmemory, so that Redis refuses jobs before the kernel kills it"}
	case float64(f.UsedMemoryBytes) > nearlyFull*float64(f.MaxMemoryBytes):
		return Row{Name: name, Status: Warn, Detail: fmt.Sprintf("%s of %d", used, f.MaxMemoryBytes>>20), Remedy: "raise maxmemory, or keep results for a shorter time"}
	}
	return Row{Name: name, Status: OK, Detail: fmt.Sprintf("%s of %d", used, f.MaxMemoryBytes>>20)}
}

func clock(f ledger.ServerFacts) Row {
	skew := f.Skew.Abs().Round(time.Millisecond)
	r := Row{Name: "clock", Status: OK, Detail: fmt.Sprintf("%s from that of Redis", skew)}
	if skew > maxClockSkew {
		r.Status, r.Remedy = Warn, "synchronize the clocks of both machines"
	}
	return r
}
