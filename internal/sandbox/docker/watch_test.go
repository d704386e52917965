package docker

import (
	"context"
	"io"
	"net/http"
	"testing"
)

func TestAwaitChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events func(w http.ResponseWriter, f *fakeEngine)
		failed bool
	}{
		"the engine reads its configuration again": {func(w http.ResponseWriter, f *fakeEngine) {
			_, _ = io.WriteString(w, `{"Type":"daemon","Action":"reload"}`+"\n")
			w.(http.Flusher).Flush()
			<-f.hung
		}, false},
		"the engine does not let us watch it": {func(w http.ResponseWriter, _ *fakeEngine) { reply(w, 403, map[string]string{"message": "no"}) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeEngine(t)
			e := f.open(brief)
			first := make(chan struct{})
			f.answer(opWatch, func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/_ping" {
					return false
				}
				if !c.failed {
					w.WriteHeader(200)
					w.(http.Flusher).Flush()
					<-first
				}
				c.events(w, f)
				return true
			})
			ended := make(chan error, 1)
			go func() { ended <- e.AwaitChange(context.Background()) }()
			if !c.failed {
				select {
				case err := <-ended:
					t.Fatalf("got %v before anything changed", err)
				case first <- struct{}{}:
				}
			}
			if err := <-ended; (err != nil) != c.failed {
				t.Errorf("got error %v, want one %v", err, c.failed)
			}
		})
	}
}

// An engine that goes away ends the wait, by whichever of the two connections is lost first.
func TestAwaitChangeSeesTheEngineGo(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t)
	e := f.open(brief)
	f.answer(opWatch, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/_ping" {
			return false
		}
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		f.stop()
		return true
	})
	_ = e.AwaitChange(context.Background()) // an error if the answer to the ping was lost
}

func TestAwaitChangeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := open(t, nil).AwaitChange(ctx); err == nil {
		t.Error("got no error from a context that has ended")
	}
}
