package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/alecthomas/kong"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/job"
)

const name = "worker"

const description = `Takes jobs from the queue and runs each in a sandbox of its own. Start as many as there is work for.

Examples:
  worker --redis embedded                     all in one, to try things out
  worker --redis redis://queue:6379/0         one of a fleet
  worker doctor                               check Redis, the engine and the image

The first SIGTERM or Ctrl+C stops taking jobs and lets running ones finish within --grace; a second one gives them back to the queue at once. Every flag can be set in the environment: --log-format as TRACEFLEET_LOG_FORMAT.
Exit codes: 0 done, 1 failed, 2 wrong usage.`

// grammar is the command line.
type grammar struct {
	settings

	Run    runCmd    `cmd:"" default:"withargs" help:"Run jobs until told to stop (the default)."`
	Doctor doctorCmd `cmd:"" help:"Check what a worker needs, and say what to do."`

	Version kong.VersionFlag `help:"Print the version."`
}

// settings are the flags of every command.
type settings struct {
	Redis string `default:"redis://127.0.0.1:6379/0" placeholder:"URL" help:"Redis of the fleet (also $TRACEFLEET_REDIS, $REDIS_URL): a URL, embedded for one inside this worker on 127.0.0.1:6379, or embedded:PORT. Default: ${default}."`
	// The file, unlike the URL, is in no process list.
	RedisPasswordFile string `placeholder:"FILE" help:"File whose first line is the password for Redis, in place of one in the URL."`
	KeyFile           string `placeholder:"FILE" help:"File of keys that encrypt jobs and results in Redis: an id, a space and 32 bytes in base64 a line, the first for what is new. The same for the whole fleet."`

	Engine  string `enum:"docker" default:"docker" placeholder:"NAME" help:"What runs the sandboxes: ${enum}."`
	Image   string `default:"tracefleet/sandbox:latest" placeholder:"IMAGE" help:"Sandbox image (${default})."`
	Runtime string `placeholder:"NAME" help:"OCI runtime, by the engine's name for it, such as runc or runsc; the engine's default when left out."`
	Digest  string `name:"image-digest" placeholder:"SHA256" help:"Refuse to start unless the sandbox image is this one, such as sha256:5f70…"`
	Fleet   string `default:"tracefleet" placeholder:"NAME" help:"Marks this fleet's containers; workers that share an engine and belong together share it (${default})."`
	Name    string `placeholder:"NAME" help:"Name of this worker, which no other in its fleet may have; host name and process id when left out."`

	Concurrency int          `default:"0" placeholder:"N" help:"Jobs at the same time; the number of processors when left out."`
	Warm        *int         `placeholder:"N" help:"Sandboxes kept ready before their job is known; as many as --concurrency when left out, 0 for none."`
	Budget      cli.Size     `default:"0" placeholder:"SIZE" help:"Memory for all jobs together, by their limits; four fifths of the host's when left out."`
	Metrics     string       `placeholder:"ADDR" help:"Serve /metrics, /healthz and /readyz here, such as 127.0.0.1:9464; off when left out."`
	Grace       cli.Duration `default:"30s" placeholder:"TIME" help:"How long running jobs may go on when the worker is told to stop (${default})."`
	Retention   cli.Duration `default:"1h" placeholder:"TIME" help:"How long the queue's own pages show a finished task (${default}); results have the job's own retention."`

	LogFormat string `enum:"json,console" default:"json" placeholder:"FORM" help:"json or console (${default})."`
	LogLevel  string `enum:"debug,info,warn,error" default:"info" placeholder:"LEVEL" help:"debug, info, warn or error (${default})."`

	maxima
}

// runCmd runs jobs.
type runCmd struct{}

// maxima lower the largest limits of jobs.
type maxima struct {
	MaxWall      *cli.Duration `group:"maxima" placeholder:"TIME" help:"Time by the clock (5m)."`
	MaxCPU       *cli.Duration `group:"maxima" name:"max-cpu" placeholder:"TIME" help:"Processor time (5m)."`
	MaxMemory    *cli.Size     `group:"maxima" placeholder:"SIZE" help:"Memory (4GiB)."`
	MaxOutput    *cli.Size     `group:"maxima" placeholder:"SIZE" help:"Output on each of stdout and stderr (16MB)."`
	MaxProcesses *int64        `group:"maxima" placeholder:"N" help:"Processes (512)."`
	MaxOpenFiles *int64        `group:"maxima" placeholder:"N" help:"Open files (1024)."`
	MaxFileSize  *cli.Size     `group:"maxima" placeholder:"SIZE" help:"Size of a file (256MiB)."`
	MaxEvents    *int64        `group:"maxima" placeholder:"N" help:"Events in a trace (100000)."`
	MaxTraceSize *cli.Size     `group:"maxima" placeholder:"SIZE" help:"Size of a trace (64MiB)."`
}

// limits gives the largest limits allowed. They cannot be raised over the
// fleet's own, nor lowered under what a job needs at least.
func (m maxima) limits() (job.Limits, error) {
	l := job.MaxLimits()
	cli.SetMillis(&l.WallMS, m.MaxWall)
	cli.SetMillis(&l.CPUMS, m.MaxCPU)
	cli.Set(&l.MemoryBytes, m.MaxMemory)
	cli.Set(&l.OutputBytes, m.MaxOutput)
	cli.Set(&l.Processes, m.MaxProcesses)
	cli.Set(&l.OpenFiles, m.MaxOpenFiles)
	cli.Set(&l.FileBytes, m.MaxFileSize)
	cli.Set(&l.TraceEvents, m.MaxEvents)
	cli.Set(&l.TraceBytes, m.MaxTraceSize)
	if err := l.Validate(job.MaxLimits()); err != nil {
		var invalid *job.ValidationError
		if errors.As(err, &invalid) && len(invalid.Fields) > 0 {
			err = invalid.Fields[0]
		}
		return l, cli.Usagef("the lowered maxima: %w", err)
	}
	return l, nil
}

// workerName is the name that was given, or one that no other live worker has.
func (s settings) workerName() string {
	if s.Name != "" {
		return s.Name
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = name
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// warm is how many sandboxes are kept ready, as the pool takes it: a negative
// number is none.
func (s settings) warm() int {
	switch {
	case s.Warm == nil:
		return s.concurrency()
	case *s.Warm < 1:
		return -1
	default:
		return *s.Warm
	}
}

// maxSandboxes bounds --concurrency and --warm: more at once is a slip of the
// keyboard, and no host has the memory.
const maxSandboxes = 4096

// checkCounts refuses numbers of sandboxes that make no sense.
func (s settings) checkCounts() error {
	if s.Concurrency < 0 || s.Concurrency > maxSandboxes {
		return cli.Usagef("--concurrency: must be from 1 to %d, or 0 for the number of processors, got %d", maxSandboxes, s.Concurrency)
	}
	if s.Warm != nil && (*s.Warm < 0 || *s.Warm > maxSandboxes) {
		return cli.Usagef("--warm: must be from 0 to %d, got %d", maxSandboxes, *s.Warm)
	}
	return nil
}

// concurrency is how many jobs run at the same time.
func (s settings) concurrency() int {
	if s.Concurrency > 0 {
		return s.Concurrency
	}
	return runtime.NumCPU()
}
