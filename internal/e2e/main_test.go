package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The sandbox under test, for trying another one: go test ./internal/e2e -image NAME -runtime runsc.
var (
	image   = flag.String("image", "tracefleet/sandbox:latest", "sandbox image that the workers use")
	runtime = flag.String("runtime", "", "OCI runtime that the workers use; the engine's default when empty")
	// What became of each attack, for make attack.
	reportFile = flag.String("report", "", "file to write what became of each attack to")
)

// needSetup ends every message about something that is missing on the machine.
const needSetup = "run make setup"

// bin is the folder of the commands under test, built once by TestMain.
var bin string

// A test here mostly waits for a sandbox, so more of them than processors may
// be under way; scenarios bound themselves.
const parallel = "16"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		return fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	folder, err := os.MkdirTemp("", "tracefleet-e2e-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // a temporary folder: the system clears it in the end
	bin = folder
	if err := prepare(ctx); err != nil {
		return fail(err)
	}
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}

// prepare builds the commands and looks whether the machine has what they need.
func prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	found, err := openEngine().hasImage(ctx, *image)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s", err, needSetup)
	case !found:
		return fmt.Errorf("the engine has no image %s: %s", *image, needSetup)
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		return fmt.Errorf("%w: %s", err, needSetup)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", bin+string(filepath.Separator), "./worker", "./enqueuer")
	build.Dir = filepath.Join("..", "..")
	if output, err := build.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("build the commands: %w", err), errors.New(string(output)))
	}
	return nil
}
