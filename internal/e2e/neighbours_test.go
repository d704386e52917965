package e2e_test

import (
	"fmt"
	"testing"

	"github.com/execra/tracefleet/internal/job"
)

// Programs at all their limits at once do not change what their neighbour says.
func TestNeighbours(t *testing.T) {
	f := newFleet(t)
	f.start("w1", 5)
	limits := map[string]any{"limits": map[string]any{"wall_ms": 60_000, "cpu_ms": 4000, "memory_bytes": 64 << 20}}
	hogs := map[string]job.Status{}
	for code, status := range map[string]job.Status{
		"while True: pass\n": job.StatusTimeLimit,
		"h = []\nwhile True: h.append(bytearray(b'x') * (1 << 20))\n":                                                             job.StatusMemoryLimit,
		"import os, time\nwhile True:\n    try:\n        if os.fork() == 0: time.sleep(600)\n    except OSError:\n        pass\n": job.StatusTimeLimit,
		"while True: print('flood' * 1000)\n":                                                                                     job.StatusOutputLimit,
	} {
		hogs[f.submit(t, program(t, code, limits))] = status
	}
	for n := range 5 {
		r := f.result(t, f.submit(t, program(t, fmt.Sprintf("total = sum(range(1000))\nprint(%d, total)\n", n), patient)))
		wantOK(t, r, fmt.Sprintf("%d 499500\n", n))
		if len(r.LimitsHit) > 0 {
			t.Errorf("got limits %v hit by the neighbour", r.LimitsHit)
		}
	}
	for id, want := range hogs {
		// A bomb of processes may run out of memory first.
		if r := f.result(t, id); r.Status != want && r.Status != job.StatusMemoryLimit {
			t.Errorf("got status %s, want %s", r.Status, want)
		}
	}
}

// Two programs at the same time do not meet: not in files, not in shared memory, not by the names of sockets, not as processes.
func TestNeighboursDoNotMeet(t *testing.T) {
	f := newFleet(t)
	f.start("w1", 2)
	const meet = `import os, socket, time
mine = %q
box = socket.socket(socket.AF_UNIX)
box.bind("\0meeting-" + mine)
box.listen()
for folder in ("/tmp", "/job", "/dev/shm"):
    open(folder + "/" + mine, "w").close()
end = time.monotonic() + 3
seen = set()
while time.monotonic() < end:
    for folder in ("/tmp", "/job", "/dev/shm"):
        seen |= {folder + "/" + name for name in os.listdir(folder) if name not in (mine, "main.py")}
    seen |= {pid for pid in os.listdir("/proc") if pid.isdigit() and pid not in ("1", str(os.getpid()))}
    for other in ("left", "right"):
        if other != mine:
            try:
                socket.socket(socket.AF_UNIX).connect("\0meeting-" + other)
                seen.add("socket of " + other)
            except OSError:
                pass
    time.sleep(0.05)
print(mine, "saw", sorted(seen))
`
	ids := map[string]string{}
	for _, name := range []string{"left", "right"} {
		ids[name] = f.submit(t, program(t, fmt.Sprintf(meet, name), map[string]any{"trace": map[string]any{"mode": "off"}, "limits": map[string]any{"open_files": 256, "wall_ms": 60_000}}))
	}
	for name, id := range ids {
		wantOK(t, f.result(t, id), name+" saw []\n")
	}
}
