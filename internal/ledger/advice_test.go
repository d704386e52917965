package ledger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/redistest"
)

// TestAdvice asks real servers in ways that they refuse.
func TestAdvice(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	if err := server.Client().ConfigSet(t.Context(), "requirepass", "right").Err(); err != nil {
		t.Fatal(err)
	}
	away := redistest.Start(t, redistest.Options{})
	away.Kill()
	for name, tt := range map[string]struct {
		opts redis.Options
		want string
	}{
		"wrong password": {redis.Options{Addr: server.Addr(), Username: "ann", Password: "wrong"}, "check the user and the password"},
		"no password":    {redis.Options{Addr: server.Addr()}, "check the user and the password"},
		"no such number": {redis.Options{Addr: server.Addr(), Password: "right", DB: 99}, "the database"},
		"away":           {redis.Options{Addr: away.Addr()}, "start Redis"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.opts.DisableIdentity = true
			rdb := redis.NewClient(&tt.opts)
			defer func() { _ = rdb.Close() }()
			_, err := CheckServer(t.Context(), rdb)
			if err == nil {
				t.Fatal("got no error")
			}
			if got := Advice(err); !strings.Contains(got, tt.want) {
				t.Errorf("got %q for %v, want %q in it", got, err, tt.want)
			}
			if got := Reason(err); strings.HasSuffix(got, ".") || !strings.HasPrefix(err.Error(), got) {
				t.Errorf("got %q for %q, want it without a full stop", got, err)
			}
		})
	}
	if got := Advice(fmt.Errorf("wrapped: %w", redis.Nil)); got == "" {
		t.Error("no advice for a reply that nobody knows")
	}
}
