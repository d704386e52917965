package ledger

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
)

// Standing is where a job stands.
type Standing struct {
	State  State // empty when there is no such job
	Status job.Status
}

// Standings tells where many jobs stand, in one round trip.
func (l *Ledger) Standings(ctx context.Context, ids []string) ([]Standing, error) {
	return l.standings(ctx, ids, func(string) bool { return true })
}

// StandingsOf is Standings as one tenant may see it: of a job that belongs to another tenant it tells what it tells of
// one that does not exist. Ids are shared by all tenants, and a list of ids says nothing of whose they are.
func (l *Ledger) StandingsOf(ctx context.Context, tenant string, ids []string) ([]Standing, error) {
	return l.standings(ctx, ids, func(owner string) bool { return owner == tenant })
}

// standings tells where those jobs stand whose tenant may be told of.
func (l *Ledger) standings(ctx context.Context, ids []string, tell func(tenant string) bool) ([]Standing, error) {
	cmds := make([]*redis.SliceCmd, len(ids))
	_, err := l.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, id := range ids {
			cmds[i] = pipe.HMGet(ctx, entryKey(id), "state", "status", "tenant")
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look at %d jobs: %w", len(ids), err)
	}
	standings := make([]Standing, len(ids))
	for i, cmd := range cmds {
		if tell(text(cmd.Val(), 2)) {
			standings[i] = Standing{State: State(text(cmd.Val(), 0)), Status: job.Status(text(cmd.Val(), 1))}
		}
	}
	return standings, nil
}
