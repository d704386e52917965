// Command addruntime writes an OCI runtime into the configuration file of a
// Docker engine and leaves everything else in it as it is.
//
//	addruntime [-config /etc/docker/daemon.json] NAME PATH [ARGUMENT...]
//
// It prints "changed" or "unchanged". The engine must read the file again to
// notice: SIGHUP is enough.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "addruntime:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("addruntime", flag.ContinueOnError)
	config := flags.String("config", "/etc/docker/daemon.json", "the engine's configuration file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() < 2 {
		return errors.New("want the name of a runtime and its path")
	}
	before, err := os.ReadFile(*config)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	after, changed, err := add(before, flags.Arg(0), flags.Arg(1), flags.Args()[2:])
	if err != nil {
		return fmt.Errorf("%s: %w", *config, err)
	}
	if !changed {
		_, err := fmt.Fprintln(stdout, "unchanged")
		return err
	}
	if err := replace(*config, after); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, "changed")
	return err
}

// add returns the configuration with the runtime in it, and whether that is
// another one than before. An empty configuration is an empty object.
func add(config []byte, name, path string, args []string) (out []byte, changed bool, err error) {
	all := map[string]json.RawMessage{}
	if len(config) > 0 {
		if err := json.Unmarshal(config, &all); err != nil {
			return nil, false, fmt.Errorf("read it: %w", err)
		}
	}
	runtimes := map[string]any{}
	if raw, ok := all["runtimes"]; ok {
		if err := json.Unmarshal(raw, &runtimes); err != nil {
			return nil, false, fmt.Errorf("read its runtimes: %w", err)
		}
	}
	entry := map[string]any{"path": path}
	if len(args) > 0 {
		list := make([]any, len(args))
		for i, arg := range args {
			list[i] = arg
		}
		entry["runtimeArgs"] = list
	}
	if reflect.DeepEqual(runtimes[name], any(entry)) {
		return config, false, nil
	}
	runtimes[name] = entry
	if all["runtimes"], err = json.Marshal(runtimes); err != nil {
		return nil, false, err
	}
	out, err = json.MarshalIndent(all, "", "  ")
	return append(out, '\n'), true, err
}

// replace writes a file so that a reader sees the old text or the new one.
func replace(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	next := path + ".new"
	if err := os.WriteFile(next, text, 0o644); err != nil {
		return err
	}
	return os.Rename(next, path)
}
