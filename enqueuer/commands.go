package main

import (
	"io"
	"os"
	"reflect"
	"time"

	"github.com/execra/tracefleet/internal/api/viewer"
	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/detach"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/render"
)

// cancelGrace is how long an interrupted trace waits for the partial result.
const cancelGrace = 5 * time.Second

// traceCmd runs one program and shows its trace.
type traceCmd struct {
	Program string       `arg:"" name:"program" help:"A Python file, a folder with a main.py, or - for standard input."`
	Wait    cli.Duration `once:"" default:"10m" placeholder:"TIME" help:"How long to wait for the result (${default})."`
	jobFlags
	formatFlag
	admissionFlags
}

// Help explains the command in its --help.
func (*traceCmd) Help() string {
	return `The program runs in a sandbox of its own, without a network. The exit code is 0 when a result came back, whatever it says of the program. Ctrl+C cancels the job and shows what it did until then; pressed again it leaves at once.

Of a folder every file is sent but hidden ones, __pycache__ and virtual environments: at most 100 files of UTF-8 text, 1 MiB in all.

Examples:

    enqueuer trace main.py --arg one --arg "two three"
    enqueuer trace project/ --entrypoint app/run.py --stdin input.txt
    enqueuer trace main.py --wall 30s --memory 1GiB --events 50000
    enqueuer trace main.py --format json | jq .summary.lines
    enqueuer trace main.py --format html > trace.html`
}

// Run carries the command out.
func (c *traceCmd) Run(s *session) error {
	j, err := reading(s.ctx, func() (job.Job, error) { return c.load(s, c.Program, job.QueueInteractive) })
	if err != nil {
		return err
	}
	fleet, err := s.connect(wiring{admission: c.admission()})
	if err != nil {
		return err
	}
	defer fleet.close()
	if j, err = c.within(fleet.maxima, j); err != nil {
		return err
	}
	if c.Format == formatText && !s.Quiet {
		s.notice("%s\n\n", job.SandboxNotice)
	}
	id, existed, err := fleet.desk.Submit(s.ctx, j)
	if err != nil {
		return s.explain(err, j.ID)
	}
	if existed && !s.Quiet {
		s.notice("%s was submitted before; this is that job\n", id)
	}
	result, err := s.await(fleet, id, time.Duration(c.Wait))
	if err != nil {
		return err
	}
	return s.print(result, j, c.formatFlag)
}

// await waits for the result of a job that this command submitted. When the
// user interrupts, the job is canceled and its partial result awaited.
func (s *session) await(fleet *fleet, id string, limit time.Duration) (job.Result, error) {
	stop := s.progress(s.ctx, id, fleet.desk.Get)
	result, err := fleet.wait(s.ctx, id, limit)
	stop()
	if err == nil || s.ctx.Err() == nil {
		return result, s.explain(err, id)
	}
	ctx, cancel := detach.Context(s.ctx, cancelGrace)
	defer cancel()
	if _, err := fleet.desk.Cancel(ctx, id); err != nil {
		return job.Result{}, cli.Failf(cli.CodeFailed, "interrupted, and %s could not be canceled: %w", id, err)
	}
	if !s.Quiet {
		s.notice("canceled %s\n", id)
	}
	result, err = fleet.wait(ctx, id, cancelGrace)
	if err != nil {
		return job.Result{}, cli.Failf(cli.CodeFailed, "interrupted; see what it did with: enqueuer get %s", id)
	}
	return result, nil
}

// submitCmd puts programs in the queue.
type submitCmd struct {
	Programs []string `arg:"" optional:"" name:"program" help:"Python files, folders with a main.py, or - for standard input."`
	Job      string   `once:"" placeholder:"FILE" help:"Submit a complete Job document (JSON) instead; - for standard input."`
	jobFlags
	admissionFlags
}

// Help explains the command in its --help.
func (*submitCmd) Help() string {
	return `All programs are checked before the first is submitted; one id a line is printed, in their order. Read results with get.

Examples:

    enqueuer submit *.py --queue batch --label run=42
    enqueuer submit main.py --id nightly-2026-11-30
    enqueuer submit --job job.json`
}

// Run carries the command out.
func (c *submitCmd) Run(s *session) error {
	jobs, err := reading(s.ctx, func() ([]job.Job, error) { return c.jobs(s) })
	if err != nil {
		return err
	}
	fleet, err := s.connect(wiring{admission: c.admission()})
	if err != nil {
		return err
	}
	defer fleet.close()
	for i, j := range jobs {
		if c.Job != "" {
			err = refused(j.Validate(fleet.maxima))
		} else {
			jobs[i], err = c.within(fleet.maxima, j)
		}
		if err != nil {
			return err
		}
	}
	for _, j := range jobs {
		id, _, err := fleet.desk.Submit(s.ctx, j)
		if err != nil {
			return s.explain(err, j.ID)
		}
		if err := s.printLine("%s", id); err != nil {
			return err
		}
	}
	return nil
}

func (c *submitCmd) jobs(s *session) ([]job.Job, error) {
	switch {
	case c.Job != "" && (len(c.Programs) > 0 || !reflect.DeepEqual(c.jobFlags, jobFlags{Mode: string(job.TraceFull), Values: true})):
		return nil, cli.Usagef("--job is a complete job; it goes with no program and no flag for one")
	case c.Job != "":
		j, err := readJob(c.Job, s.in)
		return []job.Job{j}, err
	case len(c.Programs) == 0:
		return nil, cli.Usagef("name a program, or a Job document with --job; see enqueuer submit --help")
	case c.ID != "" && len(c.Programs) > 1:
		return nil, cli.Usagef("--id is for one program, and there are %d", len(c.Programs))
	}
	var jobs []job.Job
	for _, from := range c.Programs {
		j, err := c.load(s, from, job.QueueDefault)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// load makes a job of one program and the flags.
func (f *jobFlags) load(s *session, from string, queue job.Queue) (job.Job, error) {
	if from == "-" && f.Stdin == "-" {
		return job.Job{}, cli.Usagef("the program and its input cannot both come from standard input")
	}
	if from == "-" && terminalWidth(s.in) > 0 && !s.Quiet {
		s.notice("reading the program; end it with Ctrl+D\n")
	}
	p, err := loadProgram(from, f.Entrypoint, s.in)
	if err != nil {
		return job.Job{}, err
	}
	stdin, err := f.readStdin(s.in)
	if err != nil {
		return job.Job{}, err
	}
	return f.job(p, stdin, queue)
}

// readJob reads one Job document.
func readJob(from string, stdin io.Reader) (job.Job, error) {
	if from == "-" {
		j, err := job.Decode(stdin, job.MaxLimits())
		return j, refused(err)
	}
	file, err := os.Open(from)
	if err != nil {
		return job.Job{}, cannotRead(err)
	}
	defer func() { _ = file.Close() }() // it was only read from
	if isFolder(file) {
		return job.Job{}, cli.Usagef("--job takes a Job document, a file of JSON, and %s is a folder", from)
	}
	j, err := job.Decode(file, job.MaxLimits())
	return j, refused(err)
}

// The values of --format.
const (
	formatText   = "text"
	formatJSON   = "json"
	formatExecra = "execra"
	formatHTML   = "html"
)

// print writes a result to standard output. input is the job it came from; without its
// files there is no source to show.
func (s *session) print(r job.Result, input job.Job, f formatFlag) error {
	var err error
	switch f.Format {
	case formatJSON:
		err = render.JSON(s.out, r)
	case formatExecra:
		err = render.Execra(s.out, r)
	case formatHTML:
		var page []byte
		if page, err = viewer.SelfContained(r, input); err != nil {
			return err
		}
		_, err = s.out.Write(page)
	default:
		err = render.Text(s.out, r, input.Files, s.renderOptions(f))
	}
	return written(err)
}
