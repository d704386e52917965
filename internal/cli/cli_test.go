package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/cli"
)

func TestSize(t *testing.T) {
	t.Parallel()
	good := map[string]cli.Size{
		"0": 0, "1000000": 1_000_000, "7b": 7, "1kB": 1000, "1MB": 1_000_000, "2GB": 2_000_000_000,
		"1KiB": 1024, "256MiB": 256 << 20, "4gib": 4 << 30, "1.5MiB": 3 << 19, "64k": 64 << 10, "16 MiB": 16 << 20,
	}
	for text, want := range good {
		var got cli.Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("size %q = %d, error %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "1.0001kB", "1TB", "1e3", "NaN", "1MB1", "99999999999GiB", "1..5MB"} {
		var got cli.Size
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("size %q = %d, want an error", text, got)
		}
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"500ms": 500 * time.Millisecond, "1m30s": 90 * time.Second, "1.5s": 1500 * time.Millisecond, "0s": 0} {
		var got cli.Duration
		if err := got.UnmarshalText([]byte(text)); err != nil || time.Duration(got) != want || got.Milliseconds() != want.Milliseconds() {
			t.Errorf("duration %q = %v, error %v, want %v", text, time.Duration(got), err, want)
		}
	}
	for _, text := range []string{"", "10", "-1s", "1us", "soon", "NaN"} {
		var got cli.Duration
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("duration %q = %v, want an error", text, time.Duration(got))
		}
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]cli.Seconds{"1s": 1, "90s": 90, "1m30s": 90, "24h": 86_400} {
		var got cli.Seconds
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("time %q = %d, error %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0s", "10", "-1s", "1500ms", "soon"} {
		var got cli.Seconds
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("time %q = %d, want an error", text, got)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err  error
		code int
		line string
	}{
		"nothing":      {nil, cli.CodeDone, ""},
		"plain":        {errors.New("it broke"), cli.CodeFailed, "tool: it broke\n"},
		"usage":        {cli.Usagef("wrong %s", "flag"), cli.CodeUsage, "tool: wrong flag\n"},
		"wrapped":      {fmt.Errorf("while: %w", cli.Failf(cli.CodeNotFound, "no such job")), cli.CodeNotFound, "tool: while: no such job\n"},
		"joined lines": {errors.Join(errors.New("one"), errors.New("two\x1b[31m")), cli.CodeFailed, "tool: one two\ufffd[31m\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if code := cli.Report(&out, "tool", tt.err); code != tt.code || out.String() != tt.line {
				t.Errorf("got code %d, %q, want %d, %q", code, out.String(), tt.code, tt.line)
			}
		})
	}
}

// TestEnvironment checks where flags come from when the command line leaves them out.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	type sub struct {
		Words []cli.Word `once:"" sep:"none"`
	}
	type grammar struct {
		Redis    string `default:"default"`
		LogLevel string `default:"info"`
		Quiet    bool
		Go       sub `cmd:""`
	}
	tests := map[string]struct {
		env  map[string]string
		args []string
		want string
	}{
		"defaults":           {nil, []string{"go"}, "default info false []"},
		"redis url":          {map[string]string{"REDIS_URL": "a"}, []string{"go"}, "a info false []"},
		"ours before theirs": {map[string]string{"REDIS_URL": "a", "TRACEFLEET_REDIS": "b"}, []string{"go"}, "b info false []"},
		"command line first": {map[string]string{"TRACEFLEET_REDIS": "b"}, []string{"go", "--redis", "c"}, "c info false []"},
		"before the command": {nil, []string{"--redis", "c", "go"}, "c info false []"},
		"dash and bool":      {map[string]string{"TRACEFLEET_LOG_LEVEL": "debug", "TRACEFLEET_QUIET": "true"}, []string{"go"}, "default debug true []"},
		"bool off":           {map[string]string{"TRACEFLEET_QUIET": "0"}, []string{"go"}, "default info false []"},
		"not from there":     {map[string]string{"TRACEFLEET_WORDS": "x"}, []string{"go"}, "default info false []"},
		"words with dashes":  {nil, []string{"go", "--words", "--redis", "--words=-x", "--words", "-"}, "default info false [--redis -x -]"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var g grammar
			var out bytes.Buffer
			_, err := cli.Parse(cli.Command{Name: "tool", Getenv: func(key string) string { return tt.env[key] }, Stdout: &out}, &g, tt.args)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%s %s %v %v", g.Redis, g.LogLevel, g.Quiet, g.Go.Words); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	var g grammar
	_, err := cli.Parse(cli.Command{Name: "tool", Getenv: func(string) string { return "" }, Stdout: &bytes.Buffer{}}, &g, []string{"go", "--words"})
	if cli.Code(err) != cli.CodeUsage || !strings.Contains(err.Error(), "see tool go --help") {
		t.Errorf("got %v, want a usage error that names the help", err)
	}
}
