package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
)

func TestStandingsOfOneTenant(t *testing.T) {
	onBoth(t, Config{}, func(t *testing.T, l *Ledger, _ redis.UniversalClient) {
		mustCreate(t, l, "queued")
		mustCreate(t, l, "done")
		c := mustClaim(t, l, "done")
		if err := l.Finish(t.Context(), "done", c.Fence, testResult("done", job.StatusOK)); err != nil {
			t.Fatal(err)
		}
		ids := []string{"queued", "done", "nobody"}
		for tenant, want := range map[string][]Standing{
			"acme":  {{State: StateQueued}, {State: StateFinished, Status: job.StatusOK}, {}},
			"other": {{}, {}, {}},
			"":      {{}, {}, {}},
		} {
			got, err := l.StandingsOf(t.Context(), tenant, ids)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("tenant %q (-want +got):\n%s", tenant, diff)
			}
		}
	})
}
