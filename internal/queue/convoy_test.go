package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/redistest"
)

// groups is a hook that notes how many commands pipelines have.
type groups struct {
	mu    sync.Mutex
	sizes []int
}

func (g *groups) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (g *groups) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (g *groups) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "eval" {
			g.mu.Lock()
			g.sizes = append(g.sizes, len(cmds))
			g.mu.Unlock()
		}
		return next(ctx, cmds)
	}
}

// startConvoy returns a client with a convoy that waits until release is called. What is sent before that goes together.
func startConvoy(t *testing.T, server *redistest.Server) (client *redis.Client, c *convoy, seen *groups, release func()) {
	t.Helper()
	client = redis.NewClient(&redis.Options{Addr: server.Addr(), DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	c, seen = &convoy{client: client}, &groups{}
	client.AddHook(c)
	client.AddHook(seen)
	gate, ended, began := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.ride(context.Background(), nil, func() error { close(began); <-gate; return nil })
	}()
	<-began
	return client, c, seen, sync.OnceFunc(func() { close(gate); <-ended })
}

func awaitWaiting(t *testing.T, c *convoy, n int) {
	t.Helper()
	eventually(t, patience, func() (bool, string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.waiting) == n, fmt.Sprintf("%d wait, want %d", len(c.waiting), n)
	})
}

func TestScriptsGoTogether(t *testing.T) {
	t.Parallel()
	client, c, seen, release := startConvoy(t, redistest.Start(t, redistest.Options{}))
	defer release()
	const n = 10
	got := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			script := "return ARGV[1]"
			if i == 3 {
				script = "return redis.error_reply('MINE alone')"
			}
			answer, err := client.Eval(t.Context(), script, nil, fmt.Sprint("answer ", i)).Text()
			got[i] = fmt.Sprint(answer, " ", err)
		})
	}
	awaitWaiting(t, c, n)
	// What is not a script, or is large, waits for nobody.
	if err := client.Set(t.Context(), "a", "b", 0).Err(); err != nil {
		t.Error(err)
	}
	if err := client.Eval(t.Context(), "return 1", nil, strings.Repeat("x", maxRiderBytes)).Err(); err != nil {
		t.Error(err)
	}
	release()
	wg.Wait()
	for i, answer := range got {
		want := fmt.Sprintf("answer %d <nil>", i)
		if i == 3 {
			want = " MINE alone"
		}
		if answer != want {
			t.Errorf("script %d: got %q, want %q", i, answer, want)
		}
	}
	if diff := cmp.Diff([]int{n}, seen.sizes); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func TestNobodyWaitsLongerThanHisContext(t *testing.T) {
	t.Parallel()
	client, c, _, release := startConvoy(t, redistest.Start(t, redistest.Options{}))
	defer release()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	failed := make(chan error, 1)
	go func() { failed <- client.Eval(ctx, "return 1", nil).Err() }()
	awaitWaiting(t, c, 1)
	cancel(cause)
	if err := <-failed; !errors.Is(err, cause) {
		t.Errorf("got %v, want %v", err, cause)
	}
}

func TestGroupThatCannotBeSentFailsAsAWhole(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client, c, _, release := startConvoy(t, server)
	defer release()
	failed := make(chan error, 2)
	for range cap(failed) {
		go func() { failed <- client.Eval(t.Context(), "return 1", nil).Err() }()
	}
	awaitWaiting(t, c, cap(failed))
	server.Kill()
	release()
	for range cap(failed) {
		if err := <-failed; err == nil {
			t.Error("a script that was not sent has no error")
		}
	}
	server.Restart()
	eventually(t, patience, func() (bool, string) {
		err := client.Eval(t.Context(), "return 1", nil).Err()
		return err == nil, fmt.Sprint("afterwards: ", err)
	})
}

// Many at once, alone, together and in pipelines, all get what is theirs.
func TestConvoyMixesNothingUp(t *testing.T) {
	t.Parallel()
	rdb, err := OpenRedis(RedisOptions{URL: "redis://" + redistest.Start(t, redistest.Options{}).Addr()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	script := redis.NewScript("return ARGV[1]")
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for k := range 50 {
				want := fmt.Sprint(i, " ", k)
				if got, err := script.Run(t.Context(), rdb, nil, want).Text(); got != want || err != nil {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
				var set, get *redis.Cmd
				err := pipelined(t.Context(), rdb, func(pipe redis.Pipeliner) {
					set, get = pipe.Do(t.Context(), "set", fmt.Sprint("key ", i), want), pipe.Do(t.Context(), "get", fmt.Sprint("key ", i))
				})
				if got, _ := get.Text(); err != nil || set.Err() != nil || got != want {
					t.Errorf("pipeline: got %q, %v, %v, want %q", got, err, set.Err(), want)
				}
			}
		})
	}
	wg.Wait()
}
