package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/execra/tracefleet/internal/batch"
	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/job"
)

// source is what to submit. It can be walked through again.
func (c *batchSubmitCmd) source(s *session) (batch.Source, error) {
	info, err := os.Stat(c.From)
	if err != nil {
		return nil, cannotRead(err)
	}
	if !info.IsDir() {
		return c.fileSource(), nil
	}
	keys, err := batchKeys(c.From)
	if err != nil {
		return nil, err
	}
	return func(yield func(batch.Program, error) bool) {
		for _, key := range keys {
			j, err := c.folderJob(s, key)
			if err == nil {
				err = c.apply(&j, key, true)
			}
			if err != nil {
				err = within(key, err)
			}
			if !yield(batch.Program{Key: key, Job: j}, err) || err != nil {
				return
			}
		}
	}, nil
}

// within says where a fault is, and keeps its exit code.
func within(where string, err error) error {
	return cli.Failf(cli.Code(err), "%s: %w", where, err)
}

// batchKeys are the programs of a folder by their paths below it, in order: *.py, *.json, and folders with a main.py.
func batchKeys(dir string) ([]string, error) {
	var keys []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return cannotRead(err)
		}
		key, err := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case key == ".":
			return nil
		case ignored(entry.Name()):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			if _, err := os.Stat(filepath.Join(path, job.DefaultEntrypoint)); err != nil {
				return nil
			}
			keys = append(keys, filepath.ToSlash(key))
			return fs.SkipDir
		case strings.HasSuffix(key, ".py"), strings.HasSuffix(key, ".json"):
			keys = append(keys, filepath.ToSlash(key))
		}
		return nil
	})
	return keys, err
}

// folderJob makes the job of one program of the folder.
func (c *batchSubmitCmd) folderJob(s *session, key string) (job.Job, error) {
	path := filepath.Join(c.From, filepath.FromSlash(key))
	if strings.HasSuffix(key, ".json") {
		return readJob(path, s.in)
	}
	flags := jobFlags{Mode: c.Mode, Values: true, Name: shortName(key), limitFlags: c.limitFlags}
	return flags.load(s, path, job.QueueBatch)
}

// shortName is a key as the name of a job.
func shortName(key string) string {
	r := []rune(key)
	return string(r[max(0, len(r)-job.MaxNameChars):])
}

// apply puts the flags for all jobs over what a job says itself. named tells whether the job names a queue.
func (c *batchSubmitCmd) apply(j *job.Job, key string, named bool) error {
	j.ID = ""
	if c.Queue != "" {
		j.Queue = job.Queue(c.Queue)
	} else if !named {
		j.Queue = job.QueueBatch
	}
	if c.Tenant != "" {
		j.Tenant = c.Tenant
	}
	if c.Retention != nil {
		j.RetentionS = int64(*c.Retention)
	}
	if len(c.Label) > 0 {
		labels := maps.Clone(j.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, c.Label)
		j.Labels = labels
	}
	if j.Name == "" {
		j.Name = shortName(key)
	}
	return refused(j.Validate(job.MaxLimits()))
}

// fileSource reads one Job document a line. Empty lines are left out; a job's own id is its key.
func (c *batchSubmitCmd) fileSource() batch.Source {
	return func(yield func(batch.Program, error) bool) {
		file, err := os.Open(c.From)
		if err != nil {
			yield(batch.Program{}, cannotRead(err))
			return
		}
		defer func() { _ = file.Close() }() // it was only read from
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, job.MaxDocumentBytes+1)
		for n := 1; lines.Scan(); n++ {
			doc := bytes.TrimSpace(lines.Bytes())
			if len(doc) == 0 {
				continue
			}
			p, err := c.lineJob(doc, n)
			if err != nil {
				err = within(fmt.Sprintf("%s, line %d", c.From, n), err)
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
		if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
			yield(batch.Program{}, cli.Failf(cli.CodeRefused, "%s: a line is longer than %d bytes", c.From, job.MaxDocumentBytes))
		} else if err != nil {
			yield(batch.Program{}, cannotRead(err))
		}
	}
}

func (c *batchSubmitCmd) lineJob(doc []byte, n int) (batch.Program, error) {
	j, err := job.Decode(bytes.NewReader(doc), job.MaxLimits())
	if err != nil {
		return batch.Program{}, refused(err)
	}
	key := fmt.Sprintf("line-%d", n)
	if j.ID != "" {
		key = j.ID
	}
	var said struct {
		Queue *string `json:"queue"`
	}
	if err := json.Unmarshal(doc, &said); err != nil {
		return batch.Program{}, err
	}
	err = c.apply(&j, key, said.Queue != nil)
	return batch.Program{Key: key, Job: j}, err
}
