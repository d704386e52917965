package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/execra/tracefleet/internal/cli"
)

// While a worker lives no second one of its name starts, and the sandboxes of the first stay; a dead one's name is free.
func TestOneWorkerOfAName(t *testing.T) {
	f := newFleet(t)
	first := f.start("w1", 1)
	var before []container
	eventually(t, "the stock of the first worker", readyWithin, func(ctx context.Context) (bool, any) {
		var err error
		before, err = f.engine.containers(ctx, f.name)
		return err == nil && len(before) > 0 && before[0].State == "running", fmt.Sprint(before, err)
	})
	second := f.rival(first.name)
	if code := second.wait(t, stopWithin); code != cli.CodeFailed || !strings.Contains(second.log.String(), "--name") {
		t.Errorf("a second worker called %s ended with %d, want %d and advice about --name:\n%s", first.name, code, cli.CodeFailed, second.log)
	}
	after, err := f.engine.containers(t.Context(), f.name)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range before {
		if !slices.ContainsFunc(after, func(now container) bool { return now.ID == c.ID }) {
			t.Errorf("container %s of the first worker is gone", c.ID)
		}
	}
	wantOK(t, f.result(t, f.submit(t, program(t, "print('first')\n", nil))), "first\n")

	first.kill()
	f.start(first.name, 1)
	wantOK(t, f.result(t, f.submit(t, program(t, "print('again')\n", nil))), "again\n")
}

// A worker whose name another has taken, which it can only do when the first was silent for long, stops.
func TestNameIsTakenAway(t *testing.T) {
	f := newFleet(t)
	w := f.rival("w1")
	eventually(t, "the worker to be ready", readyWithin, func(context.Context) (bool, any) {
		return strings.Contains(w.log.String(), "worker is ready"), w.log
	})
	if err := f.rdb.Set(t.Context(), "tf:worker:"+f.name+":w1", "another", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if code := w.wait(t, stopWithin); code != cli.CodeFailed || !strings.Contains(w.log.String(), "--name") {
		t.Errorf("it ended with %d, want %d and advice about --name:\n%s", code, cli.CodeFailed, w.log)
	}
}

// rival starts a worker that is expected to end by itself, and with an error.
func (f *fleet) rival(name string) *process {
	f.t.Helper()
	return startProcess(f.t, name, filepath.Join(bin, "worker"), f.env,
		"--redis", f.url, "--fleet", f.name, "--name", name, "--image", *image, "--runtime", *runtime, "--concurrency", "1")
}
