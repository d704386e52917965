package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/execra/tracefleet/internal/job"
)

// SIGTERM: the running job finishes, the queued one waits for the next worker.
func TestDrain(t *testing.T) {
	f := newFleet(t)
	first := f.start("w1", 1)
	running := f.submit(t, program(t, "import time\ntime.sleep(10)\nprint('finished')\n", patient))
	f.waitRunning(t, running)
	queued := f.submit(t, program(t, "print('next')\n", nil))
	first.stop()
	r := f.result(t, running)
	wantOK(t, r, "finished\n")
	if r.Worker != first.name || r.Attempt != 1 {
		t.Errorf("running job: got worker %s, attempt %d, want %s, 1", r.Worker, r.Attempt, first.name)
	}
	if state, err := f.state(t.Context(), queued); err != nil || state != "queued" {
		t.Errorf("got state %q, error %v of the queued job after the drain, want queued", state, err)
	}
	f.wantNoContainers()

	second := f.start("w2", 1)
	r = f.result(t, queued)
	wantOK(t, r, "next\n")
	if r.Worker != second.name {
		t.Errorf("queued job: got worker %s, want %s", r.Worker, second.name)
	}
}

// kill -9: another worker finishes the job, and what the dead one left is cleared away.
func TestWorkerKilled(t *testing.T) {
	f := newFleet(t)
	first := f.start("w1", 1)
	id := f.submit(t, program(t, "import time\ntime.sleep(10)\nprint('finished')\n", patient))
	var left []container
	eventually(t, "a running container", readyWithin, func(ctx context.Context) (bool, any) {
		var err error
		left, err = f.engine.containers(ctx, f.name)
		return err == nil && len(left) > 0 && left[0].State == "running", fmt.Sprint(left, err)
	})
	f.waitRunning(t, id)
	first.kill()
	second := f.start("w2", 1)
	r := f.result(t, id)
	wantOK(t, r, "finished\n")
	if r.Worker != second.name || r.Attempt != 2 {
		t.Errorf("got worker %s, attempt %d, want %s, 2", r.Worker, r.Attempt, second.name)
	}
	// The worker that comes back under the dead one's name clears up after it.
	f.start(first.name, 1)
	eventually(t, "what the dead worker left to be gone", readyWithin, func(ctx context.Context) (bool, any) {
		now, err := f.engine.containers(ctx, f.name)
		if err != nil {
			return false, err
		}
		for _, c := range now {
			if slices.ContainsFunc(left, func(old container) bool { return old.ID == c.ID }) {
				return false, c
			}
		}
		return true, nil
	})
}

// Entries that cannot be read become results, and the worker goes on.
func TestCorruptEntries(t *testing.T) {
	f := newFleet(t)
	corruptions := map[string]func(ctx context.Context, id string) error{
		"input of garbage": func(ctx context.Context, id string) error {
			return f.rdb.Set(ctx, "tf:{"+id+"}:input", "garbage", time.Hour).Err()
		},
		"input gone": func(ctx context.Context, id string) error {
			return f.rdb.Del(ctx, "tf:{"+id+"}:input").Err()
		},
		"input empty": func(ctx context.Context, id string) error {
			return f.rdb.Set(ctx, "tf:{"+id+"}:input", "", time.Hour).Err()
		},
		"input with one bit turned": func(ctx context.Context, id string) error {
			key := "tf:{" + id + "}:input"
			data, err := f.rdb.Get(ctx, key).Bytes()
			if err != nil {
				return err
			}
			data[len(data)/2] ^= 1
			return f.rdb.Set(ctx, key, data, time.Hour).Err()
		},
		"entry in a state that is none": func(ctx context.Context, id string) error {
			return f.rdb.HSet(ctx, "tf:{"+id+"}", "state", "garbage").Err()
		},
		"entry of one field": func(ctx context.Context, id string) error {
			return errors.Join(f.rdb.Del(ctx, "tf:{"+id+"}").Err(), f.rdb.HSet(ctx, "tf:{"+id+"}", "state", "queued").Err())
		},
		"entry that is no hash": func(ctx context.Context, id string) error {
			return f.rdb.Set(ctx, "tf:{"+id+"}", "garbage", time.Hour).Err()
		},
		"payload of another version": func(ctx context.Context, id string) error {
			return f.changePayload(ctx, id, `"v":1`, `"v":7`)
		},
		"payload that is no JSON": func(ctx context.Context, id string) error {
			return f.changePayload(ctx, id, `{"v"`, `}{v"`)
		},
		"payload with another digest": func(ctx context.Context, id string) error {
			return f.changePayload(ctx, id, `"sha256":"`, `"sha257":"`)
		},
	}
	ids := map[string]string{}
	for name, corrupt := range corruptions {
		ids[name] = f.submit(t, program(t, "print('must not run')\n", nil))
		if err := corrupt(t.Context(), ids[name]); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	w := f.start("w1", 2)
	for name, id := range ids {
		f.waitState(t, id, "finished") // until a worker has met it, get can only say that it is corrupt
		r := f.result(t, id)
		if r.Status != job.StatusRejected || r.Stdout != "" || r.Error == nil {
			t.Errorf("%s: got status %s, stdout %q, error %q, want rejected without output and with an error", name, r.Status, r.Stdout, deref(r.Error))
		}
	}
	wantOK(t, f.result(t, f.submit(t, program(t, "print('fine')\n", nil))), "fine\n")
	if !w.running() {
		t.Error("the worker is gone")
	}
}

// changePayload changes the task of a queued job where the queue keeps it. Old and new have the
// same length, so that only the payload is corrupt and not the task around it.
func (f *fleet) changePayload(ctx context.Context, id, old, replacement string) error {
	var key string
	keys := f.rdb.Scan(ctx, 0, "asynq:*:t:"+id, 1000).Iterator()
	for keys.Next(ctx) {
		key = keys.Val()
	}
	if err := keys.Err(); err != nil {
		return err
	}
	message, err := f.rdb.HGet(ctx, key, "msg").Bytes()
	if err != nil {
		return err
	}
	if !bytes.Contains(message, []byte(old)) || len(old) != len(replacement) {
		return &corruptError{id: id, part: old}
	}
	return f.rdb.HSet(ctx, key, "msg", bytes.Replace(message, []byte(old), []byte(replacement), 1)).Err()
}

type corruptError struct{ id, part string }

func (e *corruptError) Error() string { return "the task of " + e.id + " has no " + e.part }
