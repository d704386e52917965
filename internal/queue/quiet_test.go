package queue

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/execra/tracefleet/internal/redistest"
)

// quietEnv makes TestQuietRedis lose a connection, in a process of its own.
const quietEnv = "TRACEFLEET_TEST_QUIET"

// TestQuietRedis loses a subscription in two processes, because the setting is that of a process.
func TestQuietRedis(t *testing.T) {
	if quiet := os.Getenv(quietEnv); quiet != "" {
		if quiet == "yes" {
			QuietRedis()
		}
		loseSubscription(t)
		return
	}
	t.Parallel()
	for quiet, speaks := range map[string]bool{"no": true, "yes": false} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestQuietRedis$")
		cmd.Env = append(os.Environ(), quietEnv+"="+quiet)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("quiet %s: %v\n%s", quiet, err, out)
		}
		if got := strings.Contains(string(out), "PubSub"); got != speaks {
			t.Errorf("quiet %s: the library speaks %v, want %v: %s", quiet, got, speaks, out)
		}
	}
}

func loseSubscription(t *testing.T) {
	proxy := redistest.StartProxy(t, redistest.Start(t, redistest.Options{}).Addr())
	sub := redistest.Client(t, proxy.Addr()).Subscribe(t.Context(), "news")
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	if _, err := sub.Receive(t.Context()); err == nil {
		t.Error("a lost connection: no error")
	}
	_ = sub.Close() // it is lost
}
