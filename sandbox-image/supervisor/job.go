//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execra/tracefleet/internal/wire"
)

// control is the line of JSON that starts the program. The tracer applies the
// process limits to itself and reads the rest.
type control struct {
	Entrypoint string      `json:"entrypoint"`
	NoArchive  bool        `json:"no_archive,omitempty"` // the entrypoint is certainly none
	Args       []string    `json:"args"`
	Mode       string      `json:"mode"`
	Values     bool        `json:"values"`
	Include    []string    `json:"include"`
	Events     int64       `json:"events"`
	Areas      []wire.Area `json:"areas"`
	Size       int64       `json:"size"`
	OpenFiles  int64       `json:"open_files"`
	FileBytes  int64       `json:"file_bytes"`
	Processes  int64       `json:"processes"`
	CPUS       int64       `json:"cpu_s"`
	ExactMS    int64       `json:"exact_ms"`    // processor time during which the tracer counts exactly
	CPUMS      int64       `json:"cpu_ms"`      // processor time after which the program is killed
	WallEndMS  int64       `json:"wall_end_ms"` // reading of the monotonic clock at which it is killed
	NProc      int64       `json:"nproc,omitempty"`
}

// readJob reads one JOB frame and checks it. io.EOF means that there is none.
func readJob(in io.Reader) (wire.JobInfo, error) {
	var info wire.JobInfo
	frame, err := wire.NewDecoder(in).Next()
	if errors.Is(err, io.EOF) {
		return info, io.EOF
	}
	if err != nil {
		return info, fmt.Errorf("read the job: %w", err)
	}
	if frame.Type != wire.Job {
		return info, fmt.Errorf("read the job: a %q frame came instead", byte(frame.Type))
	}
	if err := json.Unmarshal(frame.Payload, &info); err != nil {
		return info, fmt.Errorf("read the job: %w", err)
	}
	return info, checkJob(info)
}

// checkJob refuses a job that cannot run as it stands. The worker has
// validated it; this catches a worker and a supervisor that do not fit.
func checkJob(info wire.JobInfo) error {
	if _, ok := info.Files[info.Entrypoint]; !ok {
		return fmt.Errorf("job: no file %q to start with", info.Entrypoint)
	}
	for name := range info.Files {
		// fs.ValidPath: relative, slash-separated, without "." and "..".
		if !fs.ValidPath(name) || name == "." {
			return fmt.Errorf("job: bad path %q", name)
		}
	}
	bounds := []struct {
		name            string
		value, min, max int64
	}{
		{"wall_ms", info.WallMS, 1, 1 << 31},
		{"cpu_ms", info.CPUMS, 1, 1 << 31},
		{"output_bytes", info.OutputBytes, 0, 1 << 31},
		{"open_files", info.OpenFiles, 1, 1 << 20},
		{"file_bytes", info.FileBytes, 0, 1 << 40},
		{"processes", info.Processes, 1, 1 << 20},
		{"nproc", info.NProc, 0, 1 << 20},
		{"trace_events", info.TraceEvents, 0, 1 << 31},
		{"trace_bytes", info.TraceBytes, 1, 1 << 30},
	}
	for _, b := range bounds {
		if b.value < b.min || b.value > b.max {
			return fmt.Errorf("job: %s is %d, want %d to %d", b.name, b.value, b.min, b.max)
		}
	}
	return nil
}

// writeFiles puts the job's files below folder, which must be empty.
func writeFiles(folder string, files map[string][]byte) error {
	for name, data := range files {
		write := writeFile
		if strings.Contains(name, "/") {
			write = writeBelow
		}
		if err := write(folder, name, data); err != nil {
			return fmt.Errorf("write the job's files: %w", err)
		}
	}
	return nil
}

// writeFile makes a file in folder itself. It goes past package os, which would take twice as many calls of the kernel.
func writeFile(folder, name string, data []byte) error {
	fd, err := unix.Open(folder+"/"+name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	for len(data) > 0 && err == nil {
		var n int
		n, err = unix.Write(fd, data)
		data = data[max(n, 0):]
	}
	return errors.Join(err, unix.Close(fd))
}

// writeBelow makes a file in a folder of its own, and that folder.
func writeBelow(folder, name string, data []byte) error {
	root, err := os.OpenRoot(folder) // refuses to leave the folder, whatever the path
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // a folder, opened to read
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// archiveEnd begins the record at the end of every zip archive, which the interpreter runs as well (PKWARE's APPNOTE.TXT, 4.3.16).
const archiveEnd = "PK\x05\x06"

// controlLine returns the line that starts the program, with the trace memory
// of the given layout, at the given reading of the monotonic clock.
func controlLine(info wire.JobInfo, areas []wire.Area, size int64, now time.Duration) ([]byte, error) {
	const backstop = 2 // seconds after which the kernel's own CPU limit follows ours
	line, err := json.Marshal(control{
		Entrypoint: info.Entrypoint, NoArchive: !bytes.Contains(info.Files[info.Entrypoint], []byte(archiveEnd)), Args: nonNil(info.Args),
		Mode: info.TraceMode, Values: info.TraceValues, Include: nonNil(info.Include),
		Events: info.TraceEvents, Areas: areas, Size: size,
		OpenFiles: info.OpenFiles, FileBytes: info.FileBytes, Processes: info.Processes, NProc: info.NProc,
		CPUS: (info.CPUMS+999)/1000 + backstop, ExactMS: min(info.CPUMS, info.WallMS) / 4,
		CPUMS: info.CPUMS, WallEndMS: now.Milliseconds() + info.WallMS,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the control line: %w", err)
	}
	return append(line, '\n'), nil
}

// monotonic reads the clock that all processes of the sandbox share; 0 when it cannot be read.
func monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

// nonNil turns nil into an empty list, so that JSON says [] and not null.
func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
