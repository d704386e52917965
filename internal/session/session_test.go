package session

import (
	"strings"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/redistest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	one, two := New(rdb), New(rdb) // of two replicas
	id, err := one.Create(t.Context(), "ada", time.Minute)
	if err != nil || len(id) < 26 {
		t.Fatalf("got %q, %v", id, err)
	}
	if owner, ok, err := two.Owner(t.Context(), id); owner != "ada" || !ok || err != nil {
		t.Errorf("got %q, %t, %v", owner, ok, err)
	}
	keys := rdb.Keys(t.Context(), "*").Val()
	if len(keys) != 1 || strings.Contains(keys[0], id) {
		t.Errorf("the keys %v tell the id", keys)
	}
	if ttl := rdb.TTL(t.Context(), keys[0]).Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("got TTL %s", ttl)
	}
	for _, id := range []string{id, "unknown"} {
		if err := two.End(t.Context(), id); err != nil {
			t.Error(err)
		}
		if _, ok, err := one.Owner(t.Context(), id); ok || err != nil {
			t.Errorf("after its end: %t, %v", ok, err)
		}
	}
}
