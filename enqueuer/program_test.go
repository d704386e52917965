package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/job"
)

// tree writes files below a new folder and returns it.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func link(t *testing.T, dir, target, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func TestLoadProgram(t *testing.T) {
	t.Parallel()
	project := tree(t, map[string]string{
		"main.py": "import shop\n", "shop/__init__.py": "", "data/prices.csv": "a,1\r\n",
		".git/config": "[core]", ".env": "SECRET=1", "shop/__pycache__/x.cpython-313.pyc": "\xff", "old.pyc": "\xff",
		"venv/pyvenv.cfg": "home = /usr", "venv/lib/big.py": "x",
	})
	link(t, project, "main.py", "alias.py")
	want := map[string]string{"main.py": "import shop\n", "alias.py": "import shop\n", "shop/__init__.py": "", "data/prices.csv": "a,1\r\n"}

	got, err := loadProgram(project, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(program{name: filepath.Base(project), entrypoint: "main.py", files: want}, got, cmp.AllowUnexported(program{})); diff != "" {
		t.Errorf("folder (-want +got):\n%s", diff)
	}
	got, err = loadProgram(project, "./shop/__init__.py", nil)
	if err != nil || got.entrypoint != "shop/__init__.py" {
		t.Errorf("entrypoint %q, error %v, want shop/__init__.py", got.entrypoint, err)
	}
	got, err = loadProgram(filepath.Join(project, "data", "prices.csv"), "", nil)
	wantFile := program{name: "prices.csv", entrypoint: "prices.csv", files: map[string]string{"prices.csv": "a,1\r\n"}}
	if diff := cmp.Diff(wantFile, got, cmp.AllowUnexported(program{})); diff != "" || err != nil {
		t.Errorf("file (-want +got), error %v:\n%s", err, diff)
	}
	got, err = loadProgram("-", "", strings.NewReader("print(1)"))
	wantStdin := program{name: "main.py", entrypoint: "main.py", files: map[string]string{"main.py": "print(1)"}}
	if diff := cmp.Diff(wantStdin, got, cmp.AllowUnexported(program{})); diff != "" || err != nil {
		t.Errorf("standard input (-want +got), error %v:\n%s", err, diff)
	}
}

func TestLoadProgramRefuses(t *testing.T) {
	t.Parallel()
	many := map[string]string{"main.py": ""}
	for i := range job.MaxFiles {
		many["f"+strings.Repeat("x", i)] = ""
	}
	escaping := tree(t, map[string]string{"main.py": ""})
	link(t, escaping, "/etc/hostname", "host.txt")
	linkedFolder := tree(t, map[string]string{"main.py": "", "real/a.py": ""})
	link(t, linkedFolder, "real", "alias")
	dangling := tree(t, map[string]string{"main.py": ""})
	link(t, dangling, "nowhere", "gone.py")
	big := strings.Repeat("x", job.MaxSourceBytes+1)
	half := strings.Repeat("x", job.MaxSourceBytes/2+1)
	file := filepath.Join(tree(t, map[string]string{"a.py": ""}), "a.py")

	tests := map[string]struct {
		from, entrypoint, stdin string
		code                    int
		says                    string
	}{
		"missing":             {from: "no-such-file.py", code: cli.CodeFailed, says: "no-such-file.py"},
		"no main.py":          {from: tree(t, map[string]string{"run.py": ""}), code: cli.CodeUsage, says: "--entrypoint"},
		"no such entrypoint":  {from: tree(t, map[string]string{"main.py": ""}), entrypoint: "a/b.py", code: cli.CodeUsage, says: "a/b.py"},
		"entrypoint outside":  {from: tree(t, map[string]string{"main.py": ""}), entrypoint: "../main.py", code: cli.CodeUsage, says: "../main.py"},
		"entrypoint and file": {from: file, entrypoint: "a.py", code: cli.CodeUsage, says: "--entrypoint"},
		"too many files":      {from: tree(t, many), code: cli.CodeRefused, says: "100 files"},
		"too large together":  {from: tree(t, map[string]string{"main.py": half, "b.py": half}), code: cli.CodeRefused, says: "1048576 bytes"},
		"file too large":      {from: filepath.Join(tree(t, map[string]string{"a.py": big}), "a.py"), code: cli.CodeRefused, says: "1048576 bytes"},
		"endless file":        {from: "/dev/zero", code: cli.CodeRefused, says: "1048576 bytes"},
		"stdin too large":     {from: "-", stdin: big, code: cli.CodeRefused, says: "1048576 bytes"},
		"not text":            {from: tree(t, map[string]string{"main.py": "", "logo.png": "\x89PNG\xff"}), code: cli.CodeRefused, says: "logo.png is not UTF-8"},
		"link out":            {from: escaping, code: cli.CodeRefused, says: "host.txt is a link"},
		"link to a folder":    {from: linkedFolder, code: cli.CodeRefused, says: "alias is a link"},
		"link to nothing":     {from: dangling, code: cli.CodeRefused, says: "gone.py is a link"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := loadProgram(tt.from, tt.entrypoint, strings.NewReader(tt.stdin))
			if err == nil || cli.Code(err) != tt.code || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got code %d, error %v, want code %d and %q", cli.Code(err), err, tt.code, tt.says)
			}
		})
	}
}

// TestInterruptedReading interrupts a command that waits for its program: at a terminal's place, and at a pipe that has a name.
func TestInterruptedReading(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "main.py")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, start := range map[string]func(t *testing.T) (args []string, in io.Reader, begin func() io.WriteCloser){
		"standard input": func(*testing.T) ([]string, io.Reader, func() io.WriteCloser) {
			r, w := io.Pipe()
			return []string{"trace", "-"}, r, func() io.WriteCloser { return w }
		},
		"a named pipe": func(t *testing.T) ([]string, io.Reader, func() io.WriteCloser) {
			return []string{"submit", fifo}, strings.NewReader(""), func() io.WriteCloser {
				w, err := os.OpenFile(fifo, os.O_WRONLY, 0) // waits for the reader
				if err != nil {
					t.Error(err)
				}
				return w
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args, in, begin := start(t)
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var said bytes.Buffer
			ended := make(chan error, 1)
			go func() {
				ended <- run(ctx, args, streams{in: in, out: io.Discard, err: &said, getenv: func(string) string { return "" }})
			}()
			w := begin()
			defer func() { _ = w.Close() }() // ends the read that was left behind
			if _, err := io.WriteString(w, "print(1)\n"); err != nil {
				t.Fatal(err)
			}
			interrupt()
			if err := <-ended; cli.Code(err) != cli.CodeFailed || err.Error() != "interrupted" {
				t.Errorf("got %v, want it interrupted", err)
			}
		})
	}
}

func TestIncludes(t *testing.T) {
	t.Parallel()
	f := jobFlags{Include: []string{"pkg/", "./main.py", ".", "", "a//b", "../x"}}
	if diff := cmp.Diff([]string{"pkg", "main.py", ".", "", "a/b", "../x"}, f.includes()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
