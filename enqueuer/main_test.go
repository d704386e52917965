package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/execra/tracefleet/internal/cli"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The Redis client looks once a second whether a server is back, and notices only then that it was closed.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// outcome is what one run of the command gave.
type outcome struct {
	stdout, stderr string
	code           int
}

// command runs one command line in this process, as main would.
func command(ctx context.Context, env map[string]string, stdin string, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	err := run(ctx, args, streams{
		in: strings.NewReader(stdin), out: &stdout, err: &stderr, getenv: func(key string) string { return env[key] },
	})
	code := cli.Report(&stderr, name, err)
	return outcome{stdout: stdout.String(), stderr: stderr.String(), code: code}
}

// golden compares got with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); go test -update writes it anew:\n%s", path, diff)
	}
}

func TestWrongUse(t *testing.T) {
	t.Parallel()
	file := filepath.Join(tree(t, map[string]string{"main.py": "print(1)\n"}), "main.py")
	tests := map[string]struct {
		args []string
		env  map[string]string
		code int
		says string
	}{
		"no command":          {args: nil, code: cli.CodeUsage, says: "see enqueuer --help"},
		"unknown command":     {args: []string{"trce", file}, code: cli.CodeUsage, says: "trce"},
		"unknown flag":        {args: []string{"trace", file, "--bogus"}, code: cli.CodeUsage, says: "see enqueuer trace --help"},
		"flag of a second":    {args: []string{"dlq", "list", "--since", "yesterday"}, code: cli.CodeUsage, says: "see enqueuer dlq list --help"},
		"second of its own":   {args: []string{"batch", "submit", file, "--wall", "5"}, code: cli.CodeUsage, says: "see enqueuer batch submit --help"},
		"no program":          {args: []string{"trace"}, code: cli.CodeUsage, says: "<program>"},
		"unknown format":      {args: []string{"get", "x", "--format", "xml"}, code: cli.CodeUsage, says: "--format"},
		"time without a unit": {args: []string{"trace", file, "--wall", "10"}, code: cli.CodeUsage, says: "500ms, 10s or 2m"},
		"negative time":       {args: []string{"trace", file, "--wall=-1s"}, code: cli.CodeUsage, says: "--wall"},
		"part of a ms":        {args: []string{"trace", file, "--cpu", "1500us"}, code: cli.CodeUsage, says: "--cpu"},
		"size in words":       {args: []string{"trace", file, "--memory", "lots"}, code: cli.CodeUsage, says: "256MiB"},
		"part of a byte":      {args: []string{"trace", file, "--output", "1.0001kB"}, code: cli.CodeUsage, says: "--output"},
		"retention, part":     {args: []string{"trace", file, "--retention", "90500ms"}, code: cli.CodeUsage, says: "whole seconds"},
		"wall over the most":  {args: []string{"trace", file, "--wall", "1h"}, code: cli.CodeRefused, says: "limits.wall_ms"},
		"wall of nothing":     {args: []string{"trace", file, "--wall", "0s"}, code: cli.CodeRefused, says: "limits.wall_ms"},
		"unknown queue":       {args: []string{"trace", file, "--queue", "fast"}, code: cli.CodeRefused, says: "queue"},
		"bad id":              {args: []string{"trace", file, "--id", "a/b"}, code: cli.CodeRefused, says: "id"},
		"job is a folder":     {args: []string{"submit", "--job", filepath.Dir(file)}, code: cli.CodeUsage, says: "is a folder"},
		"stdin is a folder":   {args: []string{"trace", file, "--stdin", filepath.Dir(file)}, code: cli.CodeUsage, says: "is a folder"},
		"no id":               {args: []string{"get", ""}, code: cli.CodeNotFound, says: "the id is empty"},
		"two standard inputs": {args: []string{"trace", "-", "--stdin", "-"}, code: cli.CodeUsage, says: "both"},
		"nothing to submit":   {args: []string{"submit"}, code: cli.CodeUsage, says: "--job"},
		"job and program":     {args: []string{"submit", file, "--job", "-"}, code: cli.CodeUsage, says: "--job"},
		"job and limit":       {args: []string{"submit", "--job", "-", "--wall", "1s"}, code: cli.CodeUsage, says: "--job"},
		"one id for two":      {args: []string{"submit", file, file, "--id", "x"}, code: cli.CodeUsage, says: "--id"},
		"job that is no JSON": {args: []string{"submit", "--job", "-"}, code: cli.CodeRefused, says: "job"},
		"bad Redis URL":       {args: []string{"get", "x", "--redis", "http://x"}, code: cli.CodeUsage, says: "--redis"},
		"bad URL for trace":   {args: []string{"trace", file, "--redis", "http://x"}, code: cli.CodeUsage, says: "--redis"},
		"Redis away":          {args: []string{"get", "x", "--redis", "redis://:hidden@127.0.0.1:1/0"}, code: cli.CodeFailed, says: "worker --redis embedded"},
		"Redis away, by env":  {args: []string{"get", "x"}, env: map[string]string{"REDIS_URL": "redis://127.0.0.1:2/0"}, code: cli.CodeFailed, says: "127.0.0.1:2"},
		"our variable first":  {args: []string{"get", "x"}, env: map[string]string{"REDIS_URL": "redis://127.0.0.1:2/0", "TRACEFLEET_REDIS": "redis://127.0.0.1:3/0"}, code: cli.CodeFailed, says: "127.0.0.1:3"},
		"doctor, Redis away":  {args: []string{"doctor", "--redis", "redis://127.0.0.1:1/0"}, code: cli.CodeFailed, says: "a check failed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := command(t.Context(), tt.env, "", tt.args...)
			if got.code != tt.code || !strings.Contains(got.stderr, tt.says) {
				t.Errorf("got code %d, stderr %q, want code %d and %q", got.code, got.stderr, tt.code, tt.says)
			}
			if strings.Count(got.stderr, "\n") != 1 || strings.Contains(got.stderr, "hidden") {
				t.Errorf("stderr must be one line without a password: %q", got.stderr)
			}
			if got.stdout != "" && tt.args[0] != "doctor" {
				t.Errorf("got stdout %q, want nothing", got.stdout)
			}
		})
	}
}
