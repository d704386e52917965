package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/redistest"
)

// TestTwoReplicas has 200 clients wait at once, half at a replica that the job was not submitted to, and counts what
// that asks of Redis: a wait must not poll.
func TestTwoReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	replicas := []*fixture{start(t, server, nil), start(t, server, nil)}
	const waits = 200
	ids := make([]string, waits)
	for i := range ids {
		ids[i] = replicas[0].submit(fmt.Sprintf(`{"code":"%d"}`, i))
	}
	var wg sync.WaitGroup
	took := make([]time.Duration, waits)
	finished := make([]atomic.Int64, waits) // in ns of Unix time
	for i, id := range ids {
		wg.Go(func() {
			got := replicas[i%2].get("/traces/" + id + "?wait=30s")
			took[i] = time.Since(time.Unix(0, finished[i].Load()))
			if got.status != 200 || !strings.Contains(got.body, `"id":"`+id+`"`) || !strings.Contains(got.body, `"result":{`) {
				t.Errorf("wait %d: got %d %.200s", i, got.status, got.body)
			}
		})
	}
	eventually(t, "all wait", func() (bool, any) {
		n := replicas[0].api.waiters.taken() + replicas[1].api.waiters.taken()
		return n == waits, n
	})
	// Each looks once before it waits.
	before := commands(t, replicas[0])
	eventually(t, "all have looked", func() (bool, any) {
		eventually(t, "a moment is over", after(200*time.Millisecond))
		last := before
		before = commands(t, replicas[0])
		return before-last < 5, before - last
	})
	eventually(t, "the time of a poll is over", after(700*time.Millisecond))
	if idle := commands(t, replicas[0]) - before; idle > 20 {
		t.Errorf("%d commands while %d wait and nothing happens: somebody polls", idle, waits)
	}
	begin := time.Now()
	for i, id := range ids {
		finished[i].Store(time.Now().UnixNano())
		replicas[1].finish(id)
	}
	wg.Wait()
	var most, sum time.Duration
	for _, d := range took {
		most, sum = max(most, d), sum+d
	}
	t.Logf("%d waits over 2 replicas: all finished and answered in %s; answer after the end of its job: mean %s, longest %s", waits, time.Since(begin), sum/waits, most)
}

// after is for eventually: it is true from d on.
func after(d time.Duration) func() (bool, any) {
	until := time.Now().Add(d)
	return func() (bool, any) { return time.Now().After(until), nil }
}

// commands is how many commands Redis has done.
func commands(t *testing.T, f *fixture) int {
	t.Helper()
	info, err := f.rdb.Info(t.Context(), "stats").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "total_commands_processed:")
	var n int
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestManyWaiters has 1,000 clients wait for one job, and more than may wait come beside. It runs alone, because
// its clients take all there is of a small machine.
func TestManyWaiters(t *testing.T) {
	const most = 1000
	f := setup(t, func(c *Config) { c.MaxWaiters = most })
	id := f.submit(`{"code":"1"}`)
	var wg sync.WaitGroup
	statuses := make([]int, most)
	for i := range most {
		wg.Go(func() { statuses[i] = f.get("/traces/" + id + "?wait=30s").status })
	}
	eventually(t, "all wait", func() (bool, any) { n := f.api.waiters.taken(); return n == most, n })
	// It is answered while the others wait, who came before it.
	over := f.get("/traces/" + id + "?wait=30s")
	if n := f.api.waiters.taken(); over.status != 200 || strings.Contains(over.body, `"result"`) || n == 0 {
		t.Errorf("one too many: got %d while %d wait, want the state at once", over.status, n)
	}
	if got := f.get("/traces/" + id + "/events"); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("a listener too many: got %d, want 503", got.status)
	}
	begin := time.Now()
	f.finish(id)
	wg.Wait()
	for i, status := range statuses {
		if status != 200 {
			t.Errorf("waiter %d: got %d", i, status)
		}
	}
	t.Logf("%d waiters answered %s after the end", most, time.Since(begin))
	eventually(t, "nobody is counted any more", func() (bool, any) { n := f.api.waiters.taken(); return n == 0, n })
}

// TestClientsThatLeave checks that a wait ends with its client: by a closed connection, and by a client that is stopped.
func TestClientsThatLeave(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	id := f.submit(`{"code":"1"}`)
	var conns []net.Conn
	for range 20 {
		c := dial(t, f)
		if _, err := fmt.Fprintf(c, "GET %s/traces/%s?wait=30s HTTP/1.1\r\nHost: localhost\r\n\r\n", Prefix, id); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	c := dial(t, f)
	if _, err := fmt.Fprintf(c, "GET %s/traces/%s/events HTTP/1.1\r\nHost: localhost\r\n\r\n", Prefix, id); err != nil {
		t.Fatal(err)
	}
	conns = append(conns, c)
	eventually(t, "all wait", func() (bool, any) { n := f.api.waiters.taken(); return n == 21, n })
	for _, c := range conns {
		_ = c.Close()
	}
	eventually(t, "nobody waits any more", func() (bool, any) { n := f.api.waiters.taken(); return n == 0, n })
}

func dial(t *testing.T, f *fixture) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(f.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestSlowClients holds connections that send next to nothing, and that do not read, while others are served: as many as
// the server takes at one time would keep it for as long as they like.
func TestSlowClients(t *testing.T) {
	f := setup(t, nil)
	big := f.submit(`{"code":"` + strings.Repeat("x", job.MaxSourceBytes-10) + `"}`)
	for range 50 {
		half := dial(t, f)
		_, _ = fmt.Fprint(half, "POST /api/v1/traces HTTP/1.1\r\nHost: loc")
		body := dial(t, f)
		_, _ = fmt.Fprintf(body, "POST %s/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", Prefix)
		deaf := dial(t, f)
		_, _ = fmt.Fprintf(deaf, "GET %s/traces/%s/input HTTP/1.1\r\nHost: localhost\r\n\r\n", Prefix, big)
	}
	for range 20 {
		if got := f.get("/limits"); got.status != 200 {
			t.Errorf("got %d", got.status)
		}
	}
	// A head that does not come is not waited for.
	c := dial(t, f)
	_, _ = fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: loc")
	_ = c.SetReadDeadline(time.Now().Add(headerTimeout + patience))
	if _, err := io.Copy(io.Discard, c); err != nil {
		t.Errorf("a head that does not come: %v, want the connection closed", err)
	}
}

// TestStopEndsWaits stops a server under waits and streams: they end at once, with what there is to say.
func TestStopEndsWaits(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	id := f.submit(`{"code":"1"}`)
	answers := make(chan answer, 2)
	for _, r := range []struct{ method, path, body string }{{"GET", "/traces/" + id + "?wait=30s", ""}, {"POST", "/traces?wait=30s", `{"code":"2"}`}} {
		go func() { answers <- f.request(r.method, Prefix+r.path, r.body) }()
	}
	events := make(chan []string, 1)
	go func() {
		_, got := f.sse("/traces/"+id+"/events", "", 0)
		events <- got
	}()
	eventually(t, "three wait", func() (bool, any) { n := f.api.waiters.taken(); return n == 3, n })
	stopped := make(chan error, 1)
	go func() { stopped <- f.stop() }()
	for range 2 {
		if got := <-answers; got.status != 200 && got.status != 202 || strings.Contains(got.body, `"result"`) {
			t.Errorf("got %d %s, want the state as it is", got.status, got.body)
		}
	}
	if got := <-events; len(got) != 1 {
		t.Errorf("got events %v, want the first", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// brokenOff is a Desk that tells of a wait that was broken off what a client of Redis does: not why.
type brokenOff struct{ Desk }

func (brokenOff) Wait(ctx context.Context, _ string) (job.Result, error) {
	<-ctx.Done()
	return job.Result{}, ctx.Err()
}

// TestWaitsBrokenOff ends waits while Redis is asked: by the time, and by the server. None of that is a fault, or the client's doing.
func TestWaitsBrokenOff(t *testing.T) {
	t.Parallel()
	f := setup(t, func(c *Config) { c.Desk = brokenOff{c.Desk} })
	id := f.submit(`{"code":"1"}`)
	if got := f.get("/traces/" + id + "?wait=50ms"); got.status != 200 {
		t.Errorf("the time is over: got %d %s, want the state as it is", got.status, got.body)
	}
	stopped := make(chan answer, 1)
	go func() { stopped <- f.get("/traces/" + id + "?wait=30s") }()
	eventually(t, "one waits", func() (bool, any) { n := f.api.waiters.taken(); return n == 1, n })
	if err := f.stop(); err != nil {
		t.Error(err)
	}
	if got := <-stopped; got.status != 200 {
		t.Errorf("the server stops: got %d %s, want the state as it is", got.status, got.body)
	}
}

// TestConnectionsAreBounded fills all slots with connections on which a request is under way: another one waits until one of these is
// done. Connections that are only kept are closed for it.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	id := f.submit(`{"code":"1"}`)
	s, err := f.api.Listen(t.Context(), "127.0.0.1:0", 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.runServer(s)
	open := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		return c, bufio.NewReader(c)
	}
	ask := func(c net.Conn, path string) {
		t.Helper()
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
			t.Fatal(err)
		}
	}
	answered := func(r *bufio.Reader) {
		t.Helper()
		got, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, got.Body); err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
	}
	one, readOne := open()
	two, readTwo := open()
	for _, c := range []net.Conn{one, two} {
		ask(c, Prefix+"/traces/"+id+"?wait=30s")
	}
	eventually(t, "both wait", func() (bool, any) { n := f.api.waiters.taken(); return n == 2, n })
	three, readThree := open()
	ask(three, "/healthz")
	bounded, _ := s.listener.(*boundedListener)
	eventually(t, "the third waits", func() (bool, any) {
		bounded.mu.Lock()
		defer bounded.mu.Unlock()
		return bounded.starved, bounded.starved
	})
	f.finish(id)
	answered(readOne)
	answered(readTwo)
	answered(readThree)

	// One of the first two and the third are kept now, and nothing happens on them.
	four, readFour := open()
	ask(four, "/healthz")
	answered(readFour)
}
