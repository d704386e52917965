package main

import (
	"errors"
	"io"
	"os"
	"path"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/job"
)

// job makes a complete, valid job of a program and the flags. queue is for
// when the flags name none.
func (f *jobFlags) job(p program, stdin string, queue job.Queue) (job.Job, error) {
	j := job.Job{
		Entrypoint: p.entrypoint, Files: p.files, Stdin: stdin, Args: f.args(),
		Limits: f.limits(job.MaxLimits()),
		Trace:  job.TraceOptions{Mode: job.TraceMode(f.Mode), Values: f.Values, Include: f.includes()},
		Queue:  queue, Tenant: f.Tenant, ID: f.ID, Name: p.name, Labels: f.Label,
	}
	if f.Queue != "" {
		j.Queue = job.Queue(f.Queue)
	}
	if f.Name != "" {
		j.Name = f.Name
	}
	if f.Retention != nil {
		j.RetentionS = int64(*f.Retention)
	}
	j = j.Normalize()
	return j, refused(j.Validate(job.MaxLimits()))
}

// includes are the paths of --include as jobs have them: shells complete folders with a slash, and people begin with "./".
func (f *jobFlags) includes() []string {
	var paths []string
	for _, p := range f.Include {
		if p != "" {
			p = path.Clean(p)
		}
		paths = append(paths, p)
	}
	return paths
}

func (f *jobFlags) args() []string {
	var args []string
	for _, a := range f.Arg {
		args = append(args, string(a))
	}
	return args
}

// within brings the limits that no flag names down to what the fleet takes, and refuses a job that asks for more.
func (f *limitFlags) within(maxima job.Limits, j job.Job) (job.Job, error) {
	j.Limits = f.limits(maxima)
	return j, refused(j.Validate(maxima))
}

// limits are the default limits, as far as the fleet takes them, with what the flags say.
func (f *limitFlags) limits(maxima job.Limits) job.Limits {
	l := job.DefaultLimits().Clamp(maxima)
	cli.SetMillis(&l.WallMS, f.Wall)
	cli.SetMillis(&l.CPUMS, f.CPU)
	cli.Set(&l.MemoryBytes, f.Memory)
	cli.Set(&l.OutputBytes, f.Output)
	cli.Set(&l.Processes, f.Processes)
	cli.Set(&l.OpenFiles, f.OpenFiles)
	cli.Set(&l.FileBytes, f.FileSize)
	cli.Set(&l.TraceEvents, f.Events)
	cli.Set(&l.TraceBytes, f.TraceSize)
	return l
}

// readStdin reads what the program shall find on its standard input.
func (f *jobFlags) readStdin(own io.Reader) (string, error) {
	switch f.Stdin {
	case "":
		return "", nil
	case "-":
		return readText(own, "standard input", job.MaxStdinBytes)
	}
	file, err := os.Open(f.Stdin)
	if err != nil {
		return "", cannotRead(err)
	}
	defer func() { _ = file.Close() }() // it was only read from
	if isFolder(file) {
		return "", cli.Usagef("--stdin takes a file, and %s is a folder", f.Stdin)
	}
	return readText(file, f.Stdin, job.MaxStdinBytes)
}

// refused gives a fault of a job its exit code.
func refused(err error) error {
	var invalid *job.ValidationError
	if errors.As(err, &invalid) {
		return &cli.Error{Code: cli.CodeRefused, Err: err}
	}
	return err
}
