package runner_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/redistest"
	"github.com/execra/tracefleet/internal/runner"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/wire"
)

// idleBox is launcher and sandbox at once; it says at once that the program has printed 1.
type idleBox struct{}

func (idleBox) Launch(context.Context, job.Limits) (sandbox.Sandbox, error) { return idleBox{}, nil }
func (idleBox) Close() error                                                { return nil }
func (idleBox) Run(context.Context, job.Job) (sandbox.Outcome, error) {
	return sandbox.Outcome{
		End: &wire.EndInfo{Exited: true, StdoutBytes: 2}, Stdout: sandbox.Stream{Data: []byte("1\n"), Total: 2}, StartedAt: time.Now(),
	}, nil
}

// bench is what a benchmark of the way around a sandbox works with.
type bench struct {
	*testing.B
	rdb    redis.UniversalClient
	ledger *ledger.Ledger
	runner *runner.Runner
}

func newBench(b *testing.B) *bench {
	b.Helper()
	f := &bench{B: b, rdb: redistest.Start(b, redistest.Options{}).Client()}
	var err error
	if f.ledger, err = ledger.New(f.rdb, ledger.Config{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.ledger.Close() })
	if f.runner, err = runner.New(f.ledger, idleBox{}, runner.Config{Worker: "bench"}); err != nil {
		b.Fatal(err)
	}
	return f
}

// create stores job number i.
func (f *bench) create(i int) (ledger.Entry, job.Job) {
	f.Helper()
	j := job.Job{ID: "job-" + strconv.Itoa(i), Files: map[string]string{"main.py": "print(1)\n"}}.Normalize()
	e, _, err := f.ledger.Create(f.Context(), j)
	if err != nil {
		f.Fatal(err)
	}
	return e, j
}

var callsPattern = regexp.MustCompile(`cmdstat_[a-z|]+:calls=(\d+),usec=(\d+)`)

// reportRedis reports how many commands Redis ran and how long it worked for each job since reset.
func (f *bench) reportRedis() {
	f.Helper()
	info, err := f.rdb.Info(f.Context(), "commandstats").Result()
	if err != nil {
		f.Fatal(err)
	}
	scripts, micros := 0, 0
	for _, m := range callsPattern.FindAllStringSubmatch(info, -1) {
		n, _ := strconv.Atoi(m[2]) // digits only
		// What a script calls is part of the script's time.
		if regexp.MustCompile(`evalsha|publish|blpop|lpush`).MatchString(m[0]) {
			calls, _ := strconv.Atoi(m[1])
			scripts, micros = scripts+calls, micros+n
		}
	}
	f.ReportMetric(float64(scripts)/float64(f.N), "requests/job")
	f.ReportMetric(float64(micros)/float64(f.N), "redis-µs/job")
}

func (f *bench) resetRedis() {
	f.Helper()
	if err := f.rdb.ConfigResetStat(f.Context()).Err(); err != nil {
		f.Fatal(err)
	}
}

// BenchmarkHandle is what a worker adds to the run of one job: claim, input, result.
func BenchmarkHandle(b *testing.B) {
	f := newBench(b)
	next := 0
	f.resetRedis()
	for b.Loop() {
		b.StopTimer()
		f.create(next)
		b.StartTimer()
		d := queue.Delivery{Envelope: queue.Envelope{V: 1, ID: "job-" + strconv.Itoa(next)}, MaxRetry: 3}
		if _, err := f.runner.Handle(f.Context(), d); err != nil {
			b.Fatal(err)
		}
		next++
	}
}

// BenchmarkQueueFull is the rate at which a worker empties a full queue when
// sandboxes cost nothing. Use a -benchtime of some thousand times.
func BenchmarkQueueFull(b *testing.B) {
	for _, slots := range []int{1, 10} {
		b.Run(fmt.Sprintf("slots-%d", slots), func(b *testing.B) {
			f := newBench(b)
			producer, err := queue.NewProducer(f.rdb, queue.Config{})
			if err != nil {
				b.Fatal(err)
			}
			for i := range b.N {
				e, j := f.create(i)
				if err := producer.Enqueue(f.Context(), queue.Envelope{ID: j.ID, SHA256: e.Digest, Bytes: e.InputBytes, Ahead: e.Ahead}, j.Queue); err != nil {
					b.Fatal(err)
				}
			}
			f.resetRedis()
			b.ResetTimer()
			f.drain(slots)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
			f.reportRedis()
		})
	}
}

// drain runs b.N jobs out of the queue.
func (f *bench) drain(slots int) {
	f.Helper()
	ctx, stop := context.WithCancel(f.Context())
	var done atomic.Int64
	handle := func(ctx context.Context, d queue.Delivery) (queue.Report, error) {
		r, err := f.runner.Handle(ctx, d)
		if done.Add(1) == int64(f.N) {
			stop()
		}
		return r, err
	}
	consumer, err := queue.NewConsumer(f.rdb, queue.Config{Concurrency: slots}, handle, zap.NewNop())
	if err != nil {
		f.Fatal(err)
	}
	if err := consumer.Run(ctx); err != nil {
		f.Fatal(err)
	}
}
