package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/execra/tracefleet/internal/intake"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
)

// fleet is one worker process, the Redis that it works for, and a client of it.
type fleet struct {
	name        string
	redis       *server
	cmd         *exec.Cmd
	ended       chan error
	metricsURL  string
	log         string
	concurrency int
	client      *customer
}

// fleetOptions says what kind of fleet is started.
type fleetOptions struct {
	name        string // also marks its containers
	concurrency int
	runtime     string
}

// startFleet starts a worker for the given Redis and waits until its stock of sandboxes is full.
func (b *bench) startFleet(ctx context.Context, s *server, o fleetOptions) (*fleet, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	f := &fleet{
		name: fmt.Sprintf("bench-%d-%s", os.Getpid(), o.name), redis: s, metricsURL: "http://" + address + "/metrics",
		log: filepath.Join(b.dir, o.name+".log"), ended: make(chan error, 1), concurrency: o.concurrency,
	}
	log, err := os.Create(f.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the worker has its own descriptor
	args := []string{"--redis", s.url(), "--image", b.image, "--fleet", f.name, "--name", f.name,
		"--concurrency", strconv.Itoa(o.concurrency), "--metrics", address, "--grace", "5s"}
	if o.runtime != "" {
		args = append(args, "--runtime", o.runtime)
	}
	f.cmd = exec.Command(filepath.Join(b.bin, "worker"), args...)
	f.cmd.Stdout, f.cmd.Stderr = log, log
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := f.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start worker (run make build): %w", err)
	}
	go func() { f.ended <- f.cmd.Wait() }()
	b.fleets = append(b.fleets, f)
	if f.client, err = newCustomer(s); err != nil {
		return nil, err
	}
	if err := f.settle(ctx); err != nil {
		text, _ := os.ReadFile(f.log) // the error that counts is the worker's
		return nil, fmt.Errorf("worker %s: %w\n%s", o.name, err, tail(text, 2000))
	}
	return f, nil
}

// stop ends the worker, which removes its containers.
func (f *fleet) stop() error {
	if f.cmd == nil {
		return nil
	}
	if f.client != nil {
		f.client.close()
	}
	_ = f.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case err := <-f.ended:
		f.cmd = nil
		if err != nil {
			return fmt.Errorf("worker %s: %w", f.name, err)
		}
		return nil
	case <-time.After(patience):
		_ = f.cmd.Process.Kill()
		<-f.ended
		f.cmd = nil
		return fmt.Errorf("worker %s did not end within %s", f.name, patience)
	}
}

// metrics reads all metrics of the worker by their full text, as in name{label="value"}.
func (f *fleet) metrics(ctx context.Context) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.metricsURL, nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	values := map[string]float64{}
	lines := bufio.NewScanner(io.LimitReader(resp.Body, 1<<20))
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), " ")
		if x, err := strconv.ParseFloat(value, 64); ok && err == nil {
			values[key] = x
		}
	}
	return values, lines.Err()
}

// settle waits until the stock of sandboxes is full and nothing is under way.
func (f *fleet) settle(ctx context.Context) error {
	return await(ctx, "an idle pool", func() error {
		m, err := f.metrics(ctx)
		if err != nil {
			select {
			case ended := <-f.ended:
				f.ended <- ended
				return fmt.Errorf("it has ended: %w", errors.Join(ended, err))
			default:
				return err
			}
		}
		sandboxes := func(state string) float64 { return m[`tracefleet_pool_sandboxes{state="`+state+`"}`] }
		busy := sandboxes("launching") + sandboxes("running") + sandboxes("closing") + sandboxes("quarantined")
		if warm := sandboxes("warm"); busy > 0 || int(warm) < f.concurrency {
			return fmt.Errorf("%v sandboxes wait, %v are under way", warm, busy)
		}
		return nil
	})
}

// residentBytes is the worker's memory.
func (f *fleet) residentBytes() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", f.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	field := strings.Fields(string(text))
	if len(field) < 2 {
		return 0, errors.New("statm is too short")
	}
	pages, err := strconv.ParseInt(field[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// customer hands in jobs and takes results out, as every front end does.
type customer struct {
	book *ledger.Ledger
	desk *intake.Desk
}

func newCustomer(s *server) (*customer, error) {
	producer, err := queue.NewProducer(s.client, queue.Config{})
	if err != nil {
		return nil, err
	}
	book, err := ledger.New(s.client, ledger.Config{})
	if err != nil {
		return nil, err
	}
	desk, err := intake.New(book, producer, intake.Config{})
	return &customer{book: book, desk: desk}, err
}

func (c *customer) close() { _ = c.book.Close() }

// hello is the job that everything is measured with: a traced print(1).
func hello() job.Job {
	return job.Job{Language: job.LanguagePython, Entrypoint: "main.py", Files: map[string]string{"main.py": "print(1)\n"}}
}

// answer is the time from handing a job in to having its result.
func (c *customer) answer(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	r, err := c.do(ctx, hello())
	took := time.Since(start)
	if err == nil && (r.Status != job.StatusOK || r.Stdout != "1\n" || r.Trace == nil || len(r.Trace.Events) == 0) {
		err = fmt.Errorf("the result is not that of a traced print(1): %s: %s", r.Status, r.Headline)
	}
	return took, err
}

func (c *customer) do(ctx context.Context, j job.Job) (job.Result, error) {
	id, _, err := c.desk.Submit(ctx, j)
	if err != nil {
		return job.Result{}, err
	}
	return c.desk.Wait(ctx, id)
}

func tail(text []byte, n int) []byte { return text[max(0, len(text)-n):] }
