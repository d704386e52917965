package docker

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
)

// plant creates a container, not started, with the given labels, and returns
// its name. It is removed at the end.
func plant(t *testing.T, e *Engine, labels map[string]string) string {
	t.Helper()
	name := containerName()
	if _, err := e.cli.ContainerCreate(context.Background(),
		&container.Config{Image: e.host.ImageID, Entrypoint: []string{supervisorPath}, Labels: labels, NetworkDisabled: true},
		&container.HostConfig{NetworkMode: "none"}, nil, nil, name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.removeOnce(context.Background(), name) })
	return name
}

// TestReap removes from a real engine what has no owner, and nothing else.
func TestReap(t *testing.T) {
	t.Parallel()
	e := open(t, nil)
	now := time.Now()
	of := func(change func(*tag)) map[string]string {
		tg := tag{
			Fleet: e.cfg.Fleet, Worker: e.cfg.Worker, Instance: "an-earlier-one",
			Launched: now.Add(-time.Minute), Deadline: now.Add(time.Hour),
		}
		change(&tg)
		return tg.labels()
	}
	gone := map[string]string{
		"an earlier worker of this name": plant(t, e, of(func(*tag) {})),
		"another worker's, too late": plant(t, e, of(func(tg *tag) {
			tg.Worker, tg.Deadline = "other", now.Add(-time.Second)
		})),
		"times that cannot be read": plant(t, e, map[string]string{
			LabelFleet: e.cfg.Fleet, labelInstance: "i", labelWorker: "other", labelDeadline: "never",
		}),
		"ours, and lost": plant(t, e, of(func(tg *tag) { tg.Instance = e.instance })),
	}
	stays := map[string]string{
		"another worker's": plant(t, e, of(func(tg *tag) { tg.Worker = "other" })),
		"another fleet's": plant(t, e, of(func(tg *tag) {
			tg.Fleet, tg.Deadline = e.cfg.Fleet+"-2", now.Add(-time.Hour)
		})),
		"a twin's, younger than this worker": plant(t, e, of(func(tg *tag) { tg.Launched = now.Add(time.Minute) })),
		"without our labels":                 plant(t, e, nil),
		"with half of our labels":            plant(t, e, map[string]string{LabelFleet: e.cfg.Fleet}),
		"alive":                              start(t, e, job.DefaultLimits()).name,
	}
	n, err := e.Reap(context.Background())
	if err != nil || n != len(gone) {
		t.Errorf("Reap: got %d, %v; want %d", n, err, len(gone))
	}
	there, err := e.cli.ContainerList(context.Background(), container.ListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	exists := func(want string) bool {
		return slices.ContainsFunc(there, func(c container.Summary) bool { return name(c) == want })
	}
	for what, name := range gone {
		if exists(name) {
			t.Errorf("%s: not reaped", what)
		}
	}
	for what, name := range stays {
		if !exists(name) {
			t.Errorf("%s: reaped", what)
		}
	}
}

// TestReapAfterCrash leaves a running sandbox behind, as a killed worker does.
func TestReapAfterCrash(t *testing.T) {
	t.Parallel()
	before := open(t, nil)
	b := start(t, before, job.DefaultLimits())

	// A neighbour leaves it alone, the worker's next life does not.
	if n, err := nextLife(t, before, "neighbour").Reap(context.Background()); n != 0 || err != nil {
		t.Errorf("neighbour: got %d reaped, %v; want none", n, err)
	}
	if n, err := nextLife(t, before, before.cfg.Worker).Reap(context.Background()); n != 1 || err != nil {
		t.Errorf("next life: got %d reaped, %v; want 1", n, err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("Close of a reaped sandbox: %v", err)
	}
}

// TestReapOfADeadNeighbour leaves containers of a worker whose name nobody takes over.
func TestReapOfADeadNeighbour(t *testing.T) {
	t.Parallel()
	before := open(t, nil)
	b := start(t, before, job.DefaultLimits())
	neighbour := nextLife(t, before, "neighbour")
	left := plant(t, before, tag{
		Fleet: before.cfg.Fleet, Worker: before.cfg.Worker, Instance: before.instance, Launched: time.Now(), Deadline: time.Now().Add(time.Hour),
	}.labels())
	if n, err := neighbour.Reap(context.Background()); n != 0 || err != nil {
		t.Errorf("at the first look: got %d reaped, %v; want none", n, err)
	}
	neighbour.mu.Lock()
	neighbour.idle[left] = time.Now().Add(-createdGrace)
	neighbour.mu.Unlock()
	if n, err := neighbour.Reap(context.Background()); n != 1 || err != nil {
		t.Errorf("later: got %d reaped, %v; want the one that stands still", n, err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("Close of a sandbox that ran all the time: %v", err)
	}
}

// nextLife opens the engine anew for a worker of the same fleet.
func nextLife(t *testing.T, before *Engine, worker string) *Engine {
	t.Helper()
	cfg := before.cfg
	cfg.Worker = worker
	e, err := Open(context.Background(), cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	e.opened = e.opened.Add(2 * time.Second) // labels count whole seconds
	return e
}
