package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/execra/tracefleet/internal/sandbox/docker"
)

// program is what the bare contenders run.
func program() []string { return []string{"/usr/bin/python3", "-I", "-S", "-c", "print(1)"} }

// answered is what it prints.
const answered = "1\n"

// bare runs the program without a fleet: in the image's root, and in containers with the settings of a sandbox.
type bare struct {
	cli   *client.Client
	label string // of the containers
	root  string // the image's, unpacked
	// made is what the engine is told about a sandbox.
	config *container.Config
	host   *container.HostConfig
	// flags say the same to docker run.
	flags []string
}

const benchLabel = "dev.tracefleet.bench"

// openBare unpacks the image and reads how f, whose stock must be full, starts its sandboxes.
func openBare(ctx context.Context, dir, image string, f *fleet) (*bare, error) {
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, err
	}
	x := &bare{cli: cli, label: f.name, root: filepath.Join(dir, "root")}
	if err := x.unpack(ctx, image); err != nil {
		return x, err
	}
	found, err := cli.ContainerList(ctx, container.ListOptions{Filters: filters.NewArgs(filters.Arg("label", docker.LabelFleet+"="+f.name))})
	if err != nil {
		return x, err
	}
	if len(found) == 0 {
		return x, errors.New("the fleet has no sandbox to look at")
	}
	like, err := cli.ContainerInspect(ctx, found[0].ID)
	if err != nil {
		return x, err
	}
	x.config, x.host = like.Config, like.HostConfig
	x.config.Labels = map[string]string{benchLabel: x.label}
	x.config.Entrypoint = program()
	x.flags, err = x.runFlags(dir)
	return x, err
}

// unpack puts the image's root into a folder.
func (x *bare) unpack(ctx context.Context, image string) error {
	if err := os.Mkdir(x.root, 0o755); err != nil {
		return err
	}
	id, err := exec.CommandContext(ctx, "docker", "create", "--label", benchLabel+"="+x.label, image).Output()
	if err != nil {
		return fmt.Errorf("docker create %s (run make setup): %w", image, err)
	}
	name := strings.TrimSpace(string(id))
	defer func() { _ = exec.Command("docker", "rm", "--force", name).Run() }() // close removes what is left
	script := `docker export "$1" | tar -x -C "$2"`
	if out, err := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script, "bash", name, x.root).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w: %s", image, err, out)
	}
	return nil
}

// close removes the containers that a run left behind.
func (x *bare) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	left, err := x.cli.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", benchLabel+"="+x.label))})
	for _, c := range left {
		err = errors.Join(err, x.cli.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}))
	}
	return errors.Join(err, x.cli.Close())
}

// python is (a): a cold interpreter in the image's root, as the sandbox's user.
func (x *bare) python(ctx context.Context) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, program()[0], program()[1:]...)
	cmd.Dir, cmd.Env = "/", x.config.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: x.root, Credential: &syscall.Credential{Uid: 64000, Gid: 64000}}
	return timed(cmd)
}

// run is (b).
func (x *bare) run(ctx context.Context) (time.Duration, error) {
	return timed(exec.CommandContext(ctx, "docker", x.flags...))
}

// timed runs a command that prints the answer.
func timed(cmd *exec.Cmd) (time.Duration, error) {
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	start := time.Now()
	out, err := cmd.Output()
	took := time.Since(start)
	if err == nil && string(out) != answered {
		err = fmt.Errorf("it printed %q", out)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", cmd.Path, err, complaint.Bytes())
	}
	return took, nil
}

// step is a part of (c).
type step struct {
	name string
	took sample
}

// stepNames are the parts of (c), in order.
func stepNames() []string { return []string{"create", "attach", "start", "wait", "remove"} }

// loop is (c): the five calls of one container. steps, when not nil, gets how long each took.
func (x *bare) loop(ctx context.Context, steps []step) (time.Duration, error) {
	start := time.Now()
	last := start
	lap := func(i int) {
		now := time.Now()
		if steps != nil {
			steps[i].took = append(steps[i].took, now.Sub(last))
		}
		last = now
	}
	made, err := x.cli.ContainerCreate(ctx, x.config, x.host, nil, nil, "")
	if err != nil {
		return 0, err
	}
	lap(0)
	stream, err := x.cli.ContainerAttach(ctx, made.ID, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	lap(1)
	ended, failed := x.cli.ContainerWait(ctx, made.ID, container.WaitConditionNextExit)
	if err := x.cli.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return 0, err
	}
	lap(2)
	var out bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, io.Discard, stream.Reader); err != nil {
		return 0, err
	}
	select {
	case <-ended:
	case err := <-failed:
		return 0, err
	}
	lap(3)
	if err := x.cli.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
		return 0, err
	}
	lap(4)
	if out.String() != answered {
		return 0, fmt.Errorf("it printed %q", out.Bytes())
	}
	return time.Since(start), nil
}

// runFlags are the arguments of docker run that ask for what x.host asks for, as far as it has flags for them.
func (x *bare) runFlags(dir string) ([]string, error) {
	h := x.host
	args := []string{"run", "--rm", "--label", benchLabel + "=" + x.label, "--network", string(h.NetworkMode), "--read-only",
		"--log-driver", h.LogConfig.Type, "--cgroupns", string(h.CgroupnsMode), "--ipc", string(h.IpcMode),
		"--oom-score-adj", strconv.Itoa(h.OomScoreAdj), "--memory", strconv.FormatInt(h.Memory, 10), "--memory-swap", strconv.FormatInt(h.MemorySwap, 10),
		"--pids-limit", strconv.FormatInt(*h.PidsLimit, 10), "--cpus", strconv.FormatFloat(float64(h.NanoCPUs)/1e9, 'f', -1, 64),
		"--user", x.config.User, "--workdir", x.config.WorkingDir, "--hostname", x.config.Hostname, "--no-healthcheck", "--entrypoint", program()[0]}
	for _, c := range h.CapDrop {
		args = append(args, "--cap-drop", c)
	}
	for _, option := range h.SecurityOpt {
		if profile, ok := strings.CutPrefix(option, "seccomp="); ok {
			path := filepath.Join(dir, "seccomp.json")
			if err := os.WriteFile(path, []byte(profile), 0o600); err != nil {
				return nil, err
			}
			option = "seccomp=" + path
		}
		args = append(args, "--security-opt", option)
	}
	for path, options := range h.Tmpfs {
		args = append(args, "--tmpfs", path+":"+options)
	}
	for _, u := range h.Ulimits {
		args = append(args, "--ulimit", fmt.Sprintf("%s=%d:%d", u.Name, u.Soft, u.Hard))
	}
	return append(append(args, x.config.Image), program()[1:]...), nil
}

// runtimes are the OCI runtimes of the engine.
func (x *bare) runtimes(ctx context.Context) (map[string]bool, error) {
	info, err := x.cli.Info(ctx)
	names := map[string]bool{}
	for name := range info.Runtimes {
		names[name] = true
	}
	return names, err
}
