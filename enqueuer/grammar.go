package main

import (
	"context"

	"github.com/alecthomas/kong"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/ledger"
)

const name = "enqueuer"

const description = `Submits programs to the Tracefleet and shows what became of them.

Examples:
  enqueuer trace main.py                    run a program, show its trace
  enqueuer trace project/ --arg 3           run the main.py of a folder
  enqueuer trace - --stdin input.txt        read the program from standard input
  enqueuer submit a.py b.py                 print one id a line, do not wait
  enqueuer get ID --wait 30s --format json  the result as a document

A worker must be running: worker --redis embedded is enough to try things out.
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 refused.`

// grammar is the command line.
type grammar struct {
	common

	Trace   traceCmd   `cmd:"" help:"Run a program and print its trace."`
	Submit  submitCmd  `cmd:"" help:"Put programs in the queue and print their ids."`
	Get     getCmd     `cmd:"" help:"Print the result of a job."`
	Cancel  cancelCmd  `cmd:"" help:"Cancel a job, queued or running."`
	Batch   batchCmd   `cmd:"" help:"Submit many jobs under one name, collect their results, run them again."`
	Dlq     dlqCmd     `cmd:"" help:"List, show, requeue and purge dead letters."`
	Monitor monitorCmd `cmd:"" help:"Serve the fleet's metrics for Prometheus."`
	Serve   serveCmd   `cmd:"" help:"Serve the API, the trace viewer and asynqmon over HTTP."`
	Token   tokenCmd   `cmd:"" help:"Make a token for the API."`
	Doctor  doctorCmd  `cmd:"" help:"Check what this command needs, and say what to do."`

	Version kong.VersionFlag `help:"Print the version."`
}

// common are the flags of every command.
type common struct {
	Redis string `default:"redis://127.0.0.1:6379/0" placeholder:"URL" help:"Redis of the fleet (also $TRACEFLEET_REDIS, $REDIS_URL). Default: ${default}."`
	// The file, unlike the URL, is in no process list.
	RedisPasswordFile string `placeholder:"FILE" help:"File whose first line is the password for Redis, in place of one in the URL."`
	KeyFile           string `placeholder:"FILE" help:"File of keys that encrypt jobs and results in Redis: an id, a space and 32 bytes in base64 a line, the first for what is new. The same for the whole fleet."`

	Quiet bool   `short:"q" help:"No notices and no progress on standard error; errors still."`
	Color string `enum:"auto,always,never" default:"auto" placeholder:"WHEN" help:"Colours: ${enum}. auto is for terminals and honours $NO_COLOR."`
}

// admissionFlags bound what is submitted. A fleet sets them alike everywhere, best in the environment.
type admissionFlags struct {
	MaxQueueJobs  int64   `default:"100000" group:"admission" placeholder:"N" help:"Jobs queued or running in one queue, -1 for any number (${default})."`
	MaxTenantJobs int64   `default:"50000" group:"admission" placeholder:"N" help:"The same of one tenant in one queue (${default})."`
	MaxRedisUse   float64 `default:"0.7" group:"admission" placeholder:"SHARE" help:"Share of the maxmemory of Redis, -1 for any (${default})."`
}

func (a admissionFlags) admission() ledger.Admission {
	return ledger.Admission{MaxQueueJobs: a.MaxQueueJobs, MaxTenantJobs: a.MaxTenantJobs, MemoryMark: a.MaxRedisUse}
}

// session is what a command works with.
type session struct {
	ctx context.Context
	streams
	common
}

// limitFlags are the limits of a run. Those left out take the fleet's defaults.
type limitFlags struct {
	Wall      *cli.Duration `once:"" group:"limits" placeholder:"TIME" help:"Time by the clock, 100ms to 5m (10s)."`
	CPU       *cli.Duration `once:"" group:"limits" name:"cpu" placeholder:"TIME" help:"Processor time of all its processes, 100ms to 5m (10s)."`
	Memory    *cli.Size     `once:"" group:"limits" placeholder:"SIZE" help:"Memory, 32MiB to 4GiB (256MiB)."`
	Output    *cli.Size     `once:"" group:"limits" placeholder:"SIZE" help:"Output on each of stdout and stderr, 1kB to 16MB (1MB)."`
	Processes *int64        `once:"" group:"limits" placeholder:"N" help:"Processes and threads, 1 to 512 (64)."`
	OpenFiles *int64        `once:"" group:"limits" placeholder:"N" help:"Open files, 16 to 1024 (32)."`
	FileSize  *cli.Size     `once:"" group:"limits" placeholder:"SIZE" help:"Size of a file it writes, 0 to 256MiB (16MiB)."`
	Events    *int64        `once:"" group:"limits" placeholder:"N" help:"Events in the trace, 0 to 100000 (10000); counts go on beyond."`
	TraceSize *cli.Size     `once:"" group:"limits" placeholder:"SIZE" help:"Size of the trace, 64KiB to 64MiB (4MiB)."`
}

// jobFlags describe a job made from files.
type jobFlags struct {
	Stdin      string            `once:"" placeholder:"FILE" help:"What the program reads on standard input; - for this command's own."`
	Arg        []cli.Word        `once:"" sep:"none" placeholder:"A" help:"An argument for the program; give it once for each."`
	Entrypoint string            `once:"" placeholder:"PATH" help:"The file of a folder that is run (main.py)."`
	Mode       string            `once:"" enum:"full,lines,calls,off" default:"full" placeholder:"MODE" help:"What to trace: full, lines (no values), calls (no lines), off."`
	Values     bool              `once:"" negatable:"" default:"true" help:"Record the values of variables."`
	Include    []string          `once:"" sep:"none" placeholder:"PATH" help:"Only trace this file or folder of the job; may be given again."`
	Queue      string            `once:"" placeholder:"Q" help:"interactive, default or batch."`
	Tenant     string            `once:"" placeholder:"T" help:"On whose behalf; tenants share the workers fairly."`
	ID         string            `once:"" name:"id" placeholder:"ID" help:"Idempotency key: the same id again gives the same job."`
	Name       string            `once:"" placeholder:"TEXT" help:"What operators see; the file's name when left out."`
	Label      map[string]string `once:"" mapsep:"none" placeholder:"KEY=VALUE" help:"A label to keep with the job; may be given again."`
	Retention  *cli.Seconds      `once:"" placeholder:"TIME" help:"How long the result is kept, 1m to 720h (24h)."`

	limitFlags
}

// formatFlag says how a result is printed.
type formatFlag struct {
	Format string `enum:"text,json,execra,html" default:"text" placeholder:"FORM" help:"text for people, json for the whole result, execra for Execra's tracer form, html for the viewer in one file."`
	Steps  int    `once:"" default:"300" placeholder:"N" help:"Rows of the run in the text, 0 for all (${default})."`
	Unfold bool   `once:"" help:"Show every pass of a loop in the text."`
}

// listFormat says how batches and dead letters are printed. The variable for --format is meant for results, which have
// other forms.
type listFormat struct {
	Format string `once:"" enum:"text,json" default:"text" placeholder:"FORM" help:"text for people; json for scripts, one document a line."`
}
