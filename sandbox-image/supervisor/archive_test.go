//go:build linux

package main

import (
	"archive/zip"
	"bytes"
	"testing"
)

// TestArchives runs a zip archive, which the interpreter does as well, and a program that only looks like one.
func TestArchives(t *testing.T) {
	t.Parallel()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for name, text := range map[string]string{"__main__.py": "import part\nprint('archive', part.x)\n", "part.py": "x = 1\n"} {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		file []byte
		want string
	}{
		"archive":            {archive.Bytes(), "archive 1\n"},
		"archive after text": {append([]byte("print('text')\n"), archive.Bytes()...), "archive 1\n"},
		"program":            {[]byte("print('PK\x05\x06' == 'PK\\x05\\x06')\n"), "True\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info := aJob("")
			info.Files[info.Entrypoint] = tt.file
			got := runCode(t, boxOptions{}, info)
			if string(got.stdout) != tt.want {
				t.Errorf("got %q and %q, want %q", got.stdout, tail(got.stderr), tt.want)
			}
		})
	}
}
