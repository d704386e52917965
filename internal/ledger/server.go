package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxClockSkew is how far the clock of this machine may be from the clock of Redis before a
// warning. asynq's leases of 30 s use the clocks of the workers.
const maxClockSkew = 5 * time.Second

// ServerFacts is what CheckServer found out about Redis.
type ServerFacts struct {
	// Version is as Redis gives it; empty for the embedded one.
	Version string
	// Embedded is true for the in-process Redis of the worker: nothing of what else is here applies.
	Embedded bool
	// Mode is "standalone", "sentinel" or "cluster".
	Mode string
	// Policy is maxmemory-policy.
	Policy string
	// MaxMemoryBytes is 0 when there is no limit.
	MaxMemoryBytes, UsedMemoryBytes int64
	// AppendOnly is true when an append-only file keeps what was written over a crash.
	AppendOnly bool
	// Skew is this machine's clock minus that of Redis.
	Skew time.Duration
	// Warnings are sentences for an operator, each with what to do.
	Warnings []string
}

// CheckServer looks whether the fleet can rely on the Redis behind rdb. The error says what is wrong
// and what to do about it: Redis cannot be reached, is older than 6.2, or may evict keys. The facts are
// filled in as far as they are known, also with an error.
func CheckServer(ctx context.Context, rdb redis.UniversalClient) (ServerFacts, error) {
	var f ServerFacts
	before := time.Now()
	now, err := rdb.Time(ctx).Result()
	if err != nil {
		return f, fmt.Errorf("reach Redis: %w", err)
	}
	f.Skew = before.Add(time.Since(before) / 2).Sub(now)
	infos, err := serverInfos(ctx, rdb)
	if err != nil {
		return f, fmt.Errorf("ask Redis for its settings: %w", err)
	}
	var faults []error
	for _, info := range infos {
		f.read(info)
		faults = append(faults, f.faults()...)
	}
	f.warn()
	return f, errors.Join(faults...)
}

// serverInfos asks every node that may hold keys, for the given sections, or all.
func serverInfos(ctx context.Context, rdb redis.UniversalClient, sections ...string) ([]map[string]string, error) {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		info, err := rdb.Info(ctx, sections...).Result()
		if err != nil {
			return nil, err
		}
		return []map[string]string{parseInfo(info)}, nil
	}
	var mu sync.Mutex // ForEachMaster calls from several goroutines.
	var infos []map[string]string
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx, sections...).Result()
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		infos = append(infos, parseInfo(info))
		return nil
	})
	return infos, err
}

// parseInfo reads the answer of INFO.
func parseInfo(info string) map[string]string {
	m := make(map[string]string)
	for l := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(l), ":"); ok {
			m[name] = value
		}
	}
	return m
}

func (f *ServerFacts) read(info map[string]string) {
	f.Version, f.Mode, f.Policy = info["redis_version"], info["redis_mode"], info["maxmemory_policy"]
	f.MaxMemoryBytes, _ = strconv.ParseInt(info["maxmemory"], 10, 64) // Managed services may hide it.
	f.UsedMemoryBytes, _ = strconv.ParseInt(info["used_memory"], 10, 64)
	f.AppendOnly = info["aof_enabled"] == "1"
	// A server that tells of its clients but of no version is the embedded one.
	f.Embedded = f.Version == "" && info["connected_clients"] != ""
}

// faults are the reasons not to work with this Redis.
func (f *ServerFacts) faults() []error {
	if f.Embedded {
		return nil
	}
	var errs []error
	if major, minor, ok := parseVersion(f.Version); !ok {
		errs = append(errs, fmt.Errorf("redis version: %.40q cannot be understood; use Redis 6.2 or later", f.Version))
	} else if major < 6 || major == 6 && minor < 2 {
		errs = append(errs, fmt.Errorf("redis version: it is %s, and dead letters break below 6.2; use Redis 6.2 or later", f.Version))
	}
	if f.Policy != "noeviction" {
		errs = append(errs, fmt.Errorf("redis maxmemory-policy: it is %q, which may drop jobs; set maxmemory-policy noeviction", f.Policy))
	}
	return errs
}

func (f *ServerFacts) warn() {
	if f.Embedded {
		f.Warnings = append(f.Warnings, "Redis is embedded in the worker: jobs do not outlive it; use a real Redis for anything that matters")
		return
	}
	if !f.AppendOnly {
		f.Warnings = append(f.Warnings, "Redis has no append-only file: a crash of it loses jobs; set appendonly yes")
	}
	if f.MaxMemoryBytes == 0 {
		f.Warnings = append(f.Warnings, "Redis has no maxmemory: it can grow until the kernel kills it; set maxmemory")
	}
	if f.Skew.Abs() > maxClockSkew {
		f.Warnings = append(f.Warnings, fmt.Sprintf("the clocks of this machine and of Redis are %s apart; synchronize them", f.Skew.Abs().Round(time.Second)))
	}
}

func parseVersion(s string) (major, minor int, ok bool) {
	parts := strings.SplitN(s, ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return major, minor, err1 == nil && err2 == nil
}
