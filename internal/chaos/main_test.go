package chaos_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// What a run is like. make chaos sets these.
var (
	jobs   = flag.Int("jobs", 60, "how many jobs are submitted")
	seed   = flag.Uint64("seed", 1, "what the order of faults, their moments and the mix of jobs follow from; 0 picks one")
	rounds = flag.Int("rounds", 1, "how often each fault happens at least")
	// A worker that stands still for longer than 10 s loses its claims.
	workerStop = flag.Duration("worker-stop", 14*time.Second, "how long a worker stands still")
	engineStop = flag.Duration("engine-stop", 6*time.Second, "how long the engine stands still")
	engineDown = flag.Duration("engine-down", 8*time.Second, "how long the engine is away after it was killed, at most")
	image      = flag.String("image", "tracefleet/sandbox:latest", "sandbox image, which the engine of the machine has")
	only       = flag.String("only", "", "the name of one fault: no other happens")
)

// needSetup ends every message about something that is missing on the machine.
const needSetup = "run make setup"

// bin is the folder of the worker under test, built once by TestMain.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(rand.Uint32())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	folder, err := os.MkdirTemp("", "tracefleet-chaos-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // a temporary folder: the system clears it in the end
	bin = folder
	if err := build(ctx); err != nil {
		return fail(err)
	}
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "chaos:", err)
	return 1
}

func build(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin+string(filepath.Separator), "./worker")
	cmd.Dir = filepath.Join("..", "..")
	if output, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("build the worker: %w", err), errors.New(string(output)))
	}
	return nil
}
