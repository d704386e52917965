package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/job"
)

// program is the source of a job, as it was found on disk or standard input.
type program struct {
	name       string
	entrypoint string
	files      map[string]string
}

// loadProgram reads FILE, DIR or -. What is too large is refused before it is read.
func loadProgram(from, entrypoint string, stdin io.Reader) (program, error) {
	if from == "-" {
		if entrypoint == "" {
			entrypoint = job.DefaultEntrypoint
		}
		return loadFile(entrypoint, "standard input", stdin)
	}
	info, err := os.Stat(from)
	if err != nil {
		return program{}, cannotRead(err)
	}
	if info.IsDir() {
		return loadFolder(from, entrypoint)
	}
	if entrypoint != "" {
		return program{}, cli.Usagef("--entrypoint is for folders, and %s is a file", from)
	}
	if info.Mode().IsRegular() && info.Size() > job.MaxSourceBytes {
		return program{}, tooLarge(from, job.MaxSourceBytes)
	}
	file, err := os.Open(from)
	if err != nil {
		return program{}, cannotRead(err)
	}
	defer func() { _ = file.Close() }() // it was only read from
	return loadFile(filepath.Base(from), from, file)
}

func loadFile(entrypoint, from string, r io.Reader) (program, error) {
	text, err := readText(r, from, job.MaxSourceBytes)
	return program{name: entrypoint, entrypoint: entrypoint, files: map[string]string{entrypoint: text}}, err
}

// loadFolder reads a project: every file below dir but hidden ones, compiled
// ones and virtual environments. Links are followed to files inside dir only.
func loadFolder(dir, entrypoint string) (program, error) {
	if entrypoint == "" {
		entrypoint = job.DefaultEntrypoint
	}
	entrypoint = filepath.ToSlash(filepath.Clean(entrypoint))
	root, err := os.OpenRoot(dir)
	if err != nil {
		return program{}, cannotRead(err)
	}
	defer func() { _ = root.Close() }() // it was only read from
	paths, err := projectFiles(root, dir)
	if err != nil {
		return program{}, err
	}
	files := make(map[string]string, len(paths))
	left := int64(job.MaxSourceBytes)
	for _, path := range paths {
		file, err := root.Open(path)
		if err != nil {
			return program{}, cannotRead(err)
		}
		files[path], err = readText(file, filepath.Join(dir, path), left)
		_ = file.Close() // it was only read from
		if err != nil {
			return program{}, err
		}
		left -= int64(len(files[path]))
	}
	if _, found := files[entrypoint]; !found {
		return program{}, cli.Usagef("%s has no file %s to run; name one with --entrypoint", dir, entrypoint)
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		absolute = dir
	}
	return program{name: filepath.Base(absolute), entrypoint: entrypoint, files: files}, nil
}

// projectFiles lists the files of a project and checks their number and size.
func projectFiles(root *os.Root, dir string) ([]string, error) {
	var paths []string
	var total int64
	err := fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return cannotRead(err)
		case path == ".":
			return nil
		case entry.IsDir() && (ignored(entry.Name()) || virtualEnvironment(root, path)):
			return fs.SkipDir
		case entry.IsDir() || ignored(entry.Name()):
			return nil
		}
		info, err := root.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			return refuseEntry(filepath.Join(dir, path), entry, err)
		}
		paths, total = append(paths, path), total+info.Size()
		if len(paths) > job.MaxFiles {
			return cli.Failf(cli.CodeRefused, "%s holds more than %d files; trace a smaller folder, or leave out what the program does not need", dir, job.MaxFiles)
		}
		if total > job.MaxSourceBytes {
			return tooLarge(dir, job.MaxSourceBytes)
		}
		return nil
	})
	return paths, err
}

// ignored tells whether a file or folder never belongs to a program.
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || name == "__pycache__" || strings.HasSuffix(name, ".pyc")
}

func virtualEnvironment(root *os.Root, path string) bool {
	_, err := root.Stat(filepath.Join(path, "pyvenv.cfg"))
	return err == nil
}

func refuseEntry(path string, entry fs.DirEntry, err error) error {
	switch {
	case entry.Type()&fs.ModeSymlink != 0:
		return cli.Failf(cli.CodeRefused, "%s is a link to something that is not a file inside the folder; replace it by a copy, or remove it", path)
	case err != nil:
		return cannotRead(err)
	}
	return cli.Failf(cli.CodeRefused, "%s is not a regular file; remove it from the folder", path)
}

// reading runs read, which may wait for a person or for another program, and gives up on it when the command is
// interrupted. A read cannot be broken off: it goes on until it has something, or the process ends.
func reading[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := read()
		done <- outcome{value, err}
	}()
	select {
	case got := <-done:
		return got.value, got.err
	case <-ctx.Done():
		var none T
		return none, cli.Failf(cli.CodeFailed, "interrupted")
	}
}

func isFolder(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.IsDir()
}

// readText reads UTF-8 text of at most limit bytes.
func readText(r io.Reader, from string, limit int64) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return "", cannotRead(err)
	case int64(len(data)) > limit:
		return "", tooLarge(from, limit)
	case !utf8.Valid(data):
		return "", cli.Failf(cli.CodeRefused, "%s is not UTF-8 text; jobs hold text only", from)
	}
	return string(data), nil
}

func cannotRead(err error) error { return cannot("read", err) }

func cannotWrite(err error) error { return cannot("write", err) }

// cannot says what could not be done with a file, without the name of the system call.
func cannot(what string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = fmt.Errorf("%s: %w", path.Path, path.Err)
	}
	return cli.Failf(cli.CodeFailed, "cannot %s %w", what, err)
}

func tooLarge(from string, limit int64) error {
	return cli.Failf(cli.CodeRefused, "%s is larger than %d bytes, the most that a job may hold", from, limit)
}
