package e2e_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
)

// What a program says and reads is nobody's business but its owner's: it is
// in no log, and in nothing that asynq keeps or asynqmon shows.
func TestPrivacy(t *testing.T) {
	const marker = "zq7marker4xw"
	f := newFleet(t)
	w := f.start("w1", 2)
	documents := map[string][]byte{
		"good": program(t, "import sys\n# "+marker+"\nprint('"+marker+"', input(), sys.argv)\nprint('"+marker+"', file=sys.stderr)\n",
			map[string]any{"stdin": marker + "\n", "args": []string{marker}}),
		"failing":    program(t, "secret = '"+marker+"'\nprint(secret)\n[][1]\n", nil),
		"unfinished": program(t, "print('"+marker+"'\n", nil),
		"flooding":   program(t, "while True: print('"+marker+"')\n", map[string]any{"limits": map[string]any{"output_bytes": 1000}}),
		"too long":   program(t, "print('"+marker+"')\nwhile True: pass\n", map[string]any{"limits": map[string]any{"wall_ms": 300}}),
	}
	want := map[string]job.Status{"good": job.StatusOK, "failing": job.StatusException, "unfinished": job.StatusSyntaxError,
		"flooding": job.StatusOutputLimit, "too long": job.StatusTimeLimit}
	var said strings.Builder
	for name, document := range documents {
		submitted := f.enqueuer(t, string(document), "submit", "--job", "-")
		said.WriteString(submitted.stderr)
		r := f.result(t, strings.TrimSpace(submitted.done(t)))
		if r.Status != want[name] {
			t.Errorf("%s: got status %s, want %s", name, r.Status, want[name])
		}
	}
	// A document that is refused must not be quoted either.
	refused := f.enqueuer(t, `{"code":"`+marker+`","stdin":"`+marker+`","args":["`+marker+`\u0000"],"limits":{"wall_ms":1}}`, "submit", "--job", "-")
	if refused.code != 4 {
		t.Errorf("got exit code %d for a bad job, want 4", refused.code)
	}
	said.WriteString(refused.stderr)

	w.stop() // asynq has heard of the results when its handlers have ended
	for name, text := range map[string]string{"the worker's log": w.log.String(), "the enqueuer's stderr": said.String()} {
		if strings.Contains(text, marker) {
			t.Errorf("%s has the marker:\n%s", name, text)
		}
	}
	keys := f.keys(t, "*")
	if len(keys) == 0 {
		t.Fatal("got no keys, want some")
	}
	for _, key := range keys {
		// Inputs and results are where the program is kept; everything else must not have it.
		if strings.HasPrefix(key, "tf:{") && (strings.HasSuffix(key, ":input") || strings.HasSuffix(key, ":result")) {
			continue
		}
		if text := key + f.dump(t, key); strings.Contains(text, marker) {
			t.Errorf("key %s has the marker: %s", key, text)
		}
	}
}

// keys lists the keys that match a pattern.
func (f *fleet) keys(t *testing.T, pattern string) []string {
	t.Helper()
	// Also used in cleanups, when the test's own context has ended.
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	var keys []string
	scan := f.rdb.Scan(ctx, 0, pattern, 1000).Iterator()
	for scan.Next(ctx) {
		keys = append(keys, scan.Val())
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return keys
}

// dump is all that a key holds, as text.
func (f *fleet) dump(t *testing.T, key string) string {
	t.Helper()
	ctx := t.Context()
	kind, err := f.rdb.Type(ctx, key).Result()
	if err != nil {
		t.Fatal(err)
	}
	var value any
	switch kind {
	case "string":
		value, err = f.rdb.Get(ctx, key).Result()
	case "hash":
		value, err = f.rdb.HGetAll(ctx, key).Result()
	case "list":
		value, err = f.rdb.LRange(ctx, key, 0, -1).Result()
	case "set":
		value, err = f.rdb.SMembers(ctx, key).Result()
	case "zset":
		value, err = f.rdb.ZRange(ctx, key, 0, -1).Result()
	case "stream":
		value, err = f.rdb.XRange(ctx, key, "-", "+").Result()
	case "none":
		return "" // has expired since it was listed
	default:
		t.Fatalf("key %s is a %s: this test cannot read it", key, kind)
	}
	if err != nil && err != redis.Nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Whatever we write goes away by itself one day.
func TestEveryKeyExpires(t *testing.T) {
	f := newFleet(t)
	w := f.start("w1", 2)
	ok := f.submit(t, program(t, "print(1)\n", map[string]any{"retention_s": 600}))
	failing := f.submit(t, program(t, "1 / 0\n", map[string]any{"queue": "batch", "tenant": "somebody"}))
	stopped := f.submit(t, program(t, "import time\ntime.sleep(600)\n", map[string]any{"limits": map[string]any{"wall_ms": 300_000}}))
	f.waitRunning(t, stopped)
	f.enqueuer(t, "", "cancel", stopped).done(t)
	for _, id := range []string{ok, failing, stopped} {
		f.result(t, id)
	}
	w.stop()
	queued := f.submit(t, program(t, "print(2)\n", nil))
	for _, key := range f.keys(t, "tf:*") {
		ttl, err := f.rdb.TTL(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case ttl == -2: // has expired since it was listed
		case ttl <= 0:
			t.Errorf("key %s has no TTL", key)
		case strings.Contains(key, "{"+ok+"}") && ttl > 600*time.Second:
			t.Errorf("key %s: got a TTL of %s, want at most the job's retention of 600s", key, ttl)
		}
	}
	if got := f.keys(t, "tf:{"+queued+"}*"); len(got) < 2 {
		t.Errorf("got keys %v of a queued job, want an entry and an input", got)
	}
}
