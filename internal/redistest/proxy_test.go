package redistest_test

import (
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/redistest"
)

// TestProxyCutAt checks which half of a command is lost, and that the way is cut and can be mended.
func TestProxyCutAt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		loss redistest.Loss
		want int64 // keys that the server has afterwards
	}{
		"the command is lost": {redistest.LoseCommand, 0},
		"the answer is lost":  {redistest.LoseAnswer, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			proxy := redistest.StartProxy(t, server.Addr())
			direct, through := server.Client(), redistest.Client(t, proxy.Addr())
			if err := through.Set(t.Context(), "other", "harmless", time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
			if err := direct.Del(t.Context(), "other").Err(); err != nil {
				t.Fatal(err)
			}
			sprung := proxy.CutAt("trigger", c.loss)
			if err := through.Set(t.Context(), "key", "the trigger", time.Minute).Err(); err == nil {
				t.Error("got no error of a command at which the way was cut")
			}
			select {
			case <-sprung:
			case <-time.After(time.Minute):
				t.Fatal("the trap was not sprung")
			}
			if err := through.Ping(t.Context()).Err(); err == nil {
				t.Error("got an answer over a way that is cut")
			}
			// The server may be slower than the loss of its answer, but it has the command before any later one.
			if n, err := direct.DBSize(t.Context()).Result(); err != nil || n != c.want {
				t.Errorf("got %d keys, error %v, want %d", n, err, c.want)
			}
			proxy.Mend()
			if err := through.Ping(t.Context()).Err(); err != nil {
				t.Errorf("got error %v after Mend", err)
			}
		})
	}
}
