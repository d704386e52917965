package ticket_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/ticket"
)

// TestOf checks that no field of an envelope is forgotten: a task with a wrong place is not found again.
func TestOf(t *testing.T) {
	t.Parallel()
	at := time.Unix(1700000000, 0)
	got := ticket.Of(ledger.Entry{ID: "a", Tenant: "acme", Name: "n", InputBytes: 5, Digest: "d", Ahead: 7, QueuedAt: at})
	want := queue.Envelope{V: queue.EnvelopeVersion, ID: "a", Tenant: "acme", Name: "n", Bytes: 5, SHA256: "d", Ahead: 7, QueuedAt: at}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i, v := 0, reflect.ValueOf(got); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not filled in", v.Type().Field(i).Name)
		}
	}
}
