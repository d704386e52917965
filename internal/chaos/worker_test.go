package chaos_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/redistest"
)

// seat is a place in the fleet that is always taken by a worker: when one ends, another is started, as a service
// manager would.
type seat struct {
	t     *testing.T
	fleet string
	place int
	env   []string
	// way is the way from the worker to Redis.
	way  *redistest.Proxy
	http *http.Client
	// closed is closed when no worker shall follow any more.
	closed chan struct{}

	mu   sync.Mutex
	life int
	now  *incumbent
	// past are the workers that have ended.
	past []*incumbent
}

// incumbent is one worker process.
type incumbent struct {
	*process
	name    string
	started time.Time
	// told is true once it was told, or made, to end.
	told bool
}

// slotsEach is how many jobs a worker runs at the same time.
const slotsEach = 2

// ready tells whether it takes jobs.
func (w *incumbent) ready() bool { return strings.Contains(w.log.String(), `"worker is ready"`) }

// keep keeps the seat taken until ctx ends. What it logs and fails stands in the test.
func (s *seat) keep(ctx context.Context) {
	for ctx.Err() == nil && !s.over() {
		w, err := s.seatNext()
		if err != nil {
			s.t.Error(err)
			return
		}
		<-w.ended
		s.mu.Lock()
		s.past = append(s.past, w)
		if !w.told && w.ready() && ctx.Err() == nil {
			s.t.Errorf("worker %s ended by itself: %s\n%s", w.name, w.cmd.ProcessState, tail(w.log.String(), 30))
		}
		s.mu.Unlock()
		pause(ctx, 500*time.Millisecond)
	}
}

// over tells whether no worker shall follow any more.
func (s *seat) over() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// seatNext starts the next worker. Two of three have the name of the one before, as on a host whose service is
// restarted; the others a new one, as in a cluster.
func (s *seat) seatNext() (*incumbent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := fmt.Sprintf("w%d-%d", s.place, s.life/3)
	s.life++
	p, err := startProcess(syscall.SIGTERM, s.env, filepath.Join(bin, "worker"),
		"--redis", "redis://"+s.way.Addr()+"/0", "--fleet", s.fleet, "--name", name, "--image", *image,
		"--concurrency", strconv.Itoa(slotsEach), "--metrics", "127.0.0.1:0", "--grace", "20s")
	if err != nil {
		return nil, err
	}
	s.now = &incumbent{process: p, name: name, started: time.Now()}
	return s.now, nil
}

// current is the worker that has the seat, or had it last.
func (s *seat) current() *incumbent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// end sends the current worker a signal that ends it.
func (s *seat) end(signal syscall.Signal) (*incumbent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.told = true
	return s.now, s.now.signal(signal)
}

// awaitNext waits until another worker than w has the seat.
func (s *seat) awaitNext(w *incumbent) {
	s.t.Helper()
	if up, _ := until(s.t, patience, 50*time.Millisecond, func(context.Context) (bool, string) { return s.current() != w, "" }); !up {
		s.t.Errorf("no worker followed %s at place %d", w.name, s.place)
	}
}

// awaitReady waits until a worker has the seat and takes jobs.
func (s *seat) awaitReady() {
	s.t.Helper()
	up, state := until(s.t, patience, 50*time.Millisecond, func(context.Context) (bool, string) {
		w := s.current()
		select {
		case <-w.ended:
			return false, w.log.String()
		default:
			return w.ready(), w.log.String()
		}
	})
	if !up {
		s.t.Errorf("no worker at place %d took jobs again\n%s", s.place, tail(state, 30))
	}
}

// load is how large a process is.
type load struct {
	goroutines, residentBytes, slotsUsed, quarantined, warm float64
}

// measure asks the current worker for its load.
func (s *seat) measure(ctx context.Context) (load, error) {
	log := s.current().log.String()
	_, rest, found := strings.Cut(log, `"serving metrics and health"`)
	_, rest, ok := strings.Cut(rest, `"address":"`)
	address, _, _ := strings.Cut(rest, `"`)
	if !found || !ok {
		return load{}, fmt.Errorf("worker %s serves no metrics", s.current().name)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return load{}, err
	}
	answer, err := s.http.Do(request)
	if err != nil {
		return load{}, fmt.Errorf("ask worker %s: %w", s.current().name, err)
	}
	defer func() { _ = answer.Body.Close() }()
	values := map[string]float64{}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = v
		}
	}
	return load{
		goroutines: values["go_goroutines"], residentBytes: values["process_resident_memory_bytes"],
		slotsUsed: values["tracefleet_queue_slots_used"], quarantined: values["tracefleet_docker_quarantined"],
		warm: values[`tracefleet_pool_sandboxes{state="warm"}`],
	}, lines.Err()
}

// tail is the last n lines of a text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
