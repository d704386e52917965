package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/sandbox/docker"
	"github.com/execra/tracefleet/internal/sandbox/sandboxtest"
)

// start runs a proxy for a fleet until the test ends, and returns its socket.
func start(t *testing.T, fleet string) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	var log safeBuffer
	go func() {
		ended <- run(ctx, []string{"-listen", socket, "-fleet", fleet}, func(string) string { return "" }, &log)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("got %v at the proxy's end", err)
		}
	})
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	for !strings.Contains(log.String(), "is ready") {
		select {
		case err := <-ended:
			t.Fatalf("the proxy ended: %v (run make setup)\n%s", err, log.String())
		case <-deadline.C:
			t.Fatalf("the proxy is not ready\n%s", log.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return socket
}

// Everything that a worker does works through the proxy.
func TestConformance(t *testing.T) {
	t.Parallel()
	sandboxtest.Run(t, func(t *testing.T) sandbox.Launcher {
		fleet := "proxy-" + strings.ToLower(fmt.Sprintf("%x", time.Now().UnixNano()))
		e, err := docker.Open(context.Background(), docker.Config{Host: "unix://" + start(t, fleet), Fleet: fleet, Worker: "w"}, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if n, err := e.Reap(context.Background()); err != nil {
				t.Errorf("reap: %d, %v", n, err)
			}
			if n, err := e.Remaining(context.Background()); n != 0 || err != nil {
				t.Errorf("left behind: %d containers, error %v", n, err)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		return e
	})
}

// ask sends a request as it is written, and returns the status.
func ask(t *testing.T, socket, raw string) int {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, raw); err != nil {
		t.Fatal(err)
	}
	var answer [32]byte
	n, _ := io.ReadFull(conn, answer[:]) // a short answer has its status, too
	fields := strings.Fields(string(answer[:n]))
	if len(fields) < 2 {
		t.Fatalf("got answer %q", answer[:n])
	}
	var status int
	_, _ = fmt.Sscan(fields[1], &status)
	return status
}

func request(method, path string, body string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", method, path, len(body), body)
}

// A worker that was taken over gets nowhere: each of these is refused before the engine hears of it.
func TestAttacksOnTheProxy(t *testing.T) {
	t.Parallel()
	const fleet = "proxy-attacks"
	socket := start(t, fleet)
	version, honest := honestCreate(t, socket, fleet)
	stranger, own := containerOn(t, `{"Image":"`+docker.DefaultImage+`"}`), containerOn(t, honest(nil))
	memory := func(id, until string) string {
		return "/v" + version + "/events?" + url.Values{"since": {"0"}, "until": {until}, "filters": {`{"container":{"` + id + `":true},"event":{"oom":true}}`}}.Encode()
	}
	v := "/v" + version
	const name = "?name=tracefleet-0123456789abcdef01234567"

	raw := map[string]string{}
	for _, path := range []string{
		memory(stranger, "1"), memory(stranger[:12], "1"), memory("", "1"), memory(own, ""), memory(own, "-1"), memory(own, "1") + "&since=1", memory(own+`":true,"`+stranger, "1"),
		"/", "/version", v + "/version", "/info", "/v1.24/info", v + "/system/df", v + "/secrets", v + "/images/json", v + "/volumes", v + "/networks", v + "/events",
		v + "/events?filters=%7B%7D", v + "/containers/json", v + "/containers/json?all=1", v + "/containers/json?all=1&filters=%7B%22label%22%3A%7B%22dev.tracefleet.fleet%3Dother%22%3Atrue%7D%7D",
		v + "/containers/" + stranger + "/json", v + "/containers/" + stranger + "/logs?stdout=1", v + "/containers/" + stranger + "/archive?path=/", v + "/containers/" + stranger + "/export",
		v + "/containers/" + stranger + "/top", v + "/containers/" + stranger + "/changes", v + "/containers/" + stranger + "/attach/ws", v + "/containers/" + stranger[:12] + "/json",
		v + "/images/" + "debian:trixie-slim/json", v + "/images/../containers/json", v + "/%63ontainers/json", v + "//containers/json", v + "/containers/x%2F..%2F" + stranger + "/json",
		v + "/../v1.41/version", "/v1.41/../version", v + "/plugins", v + "/swarm", v + "/distribution/debian/json", v + "/session", v + "/grpc", v + "/debug/pprof/",
	} {
		raw["GET "+path] = request("GET", path, "")
	}
	for _, path := range []string{
		v + "/containers/" + stranger + "/start", v + "/containers/" + stranger + "/kill?signal=KILL", v + "/containers/" + stranger + "/stop", v + "/containers/" + stranger + "/exec",
		v + "/containers/" + stranger + "/update", v + "/containers/" + stranger + "/wait?condition=next-exit", v + "/containers/" + stranger + "/attach?stream=1&stdin=1&stdout=1&stderr=1",
		v + "/containers/" + stranger + "/rename?name=x", v + "/containers/" + stranger + "/pause", v + "/containers/prune", v + "/build", v + "/images/create?fromImage=debian", v + "/images/load",
		v + "/commit?container=" + stranger, v + "/volumes/create", v + "/networks/create", v + "/auth", v + "/swarm/init", v + "/services/create", v + "/secrets/create", v + "/plugins/pull",
		v + "/exec/x/start", v + "/build/prune", v + "/session",
	} {
		raw["POST "+path] = request("POST", path, "")
	}
	raw["DELETE a stranger"] = request("DELETE", v+"/containers/"+stranger+"?force=1&v=1", "")
	raw["DELETE an image"] = request("DELETE", v+"/images/debian:trixie-slim", "")
	raw["PUT archive"] = request("PUT", v+"/containers/"+stranger+"/archive?path=/", "x")
	raw["a body that is too large"] = request("POST", v+"/containers/create"+name, strings.Repeat(" ", maxBody)+honest(nil))
	raw["another name"] = request("POST", v+"/containers/create?name=other", honest(nil))
	raw["no name"] = request("POST", v+"/containers/create", honest(nil))
	raw["two names"] = request("POST", v+"/containers/create"+name+"&name=other", honest(nil))
	raw["a platform"] = request("POST", v+"/containers/create"+name+"&platform=linux/arm64", honest(nil))
	raw["another version"] = request("POST", "/v1.24/containers/create"+name, honest(nil))
	raw["no version"] = request("POST", "/containers/create"+name, honest(nil))
	for what, change := range hostileConfigurations() {
		raw["create: "+what] = request("POST", v+"/containers/create"+name, honest(change))
	}
	good := honest(nil)
	raw["create: a second document"] = request("POST", v+"/containers/create"+name, good+`{"HostConfig":{"Privileged":true}}`)
	raw["create: a key twice"] = request("POST", v+"/containers/create"+name, strings.TrimSuffix(good, "}")+`,"HostConfig":{"Privileged":true}}`)
	raw["create: a key in capitals"] = request("POST", v+"/containers/create"+name, strings.TrimSuffix(good, "}")+`,"hostCONFIG":{"PRIVILEGED":true}}`)
	raw["create: an unknown key"] = request("POST", v+"/containers/create"+name, strings.Replace(good, `"HostConfig":{`, `"HostConfig":{"FutureMounts":["/"],`, 1))
	raw["create: no document"] = request("POST", v+"/containers/create"+name, "null")
	for what, text := range raw {
		if status := ask(t, socket, text); status < 400 || status == 502 {
			t.Errorf("%s: got status %d, want it refused", what, status)
		}
	}
	if status := ask(t, socket, request("GET", "/_ping", "")); status != 200 {
		t.Errorf("got status %d for a ping, want 200", status)
	}
	if status := ask(t, "/var/run/docker.sock", request("GET", v+"/containers/tracefleet-0123456789abcdef01234567/json", "")); status != 404 {
		t.Errorf("got status %d, want no container of that name on the engine", status)
	}
	if err := run(t.Context(), []string{"-check", "-listen", socket}, func(string) string { return "" }, io.Discard); err != nil {
		t.Errorf("got %v from -check", err)
	}
	if err := run(t.Context(), []string{"-check", "-listen", filepath.Join(t.TempDir(), "none")}, func(string) string { return "" }, io.Discard); err == nil {
		t.Error("got no error from -check without a proxy")
	}
	// The honest one it is, that all of these were made of.
	if status := ask(t, socket, request("POST", v+"/containers/create"+name, good)); status != 201 {
		t.Errorf("got status %d for an honest request, want 201", status)
	}
	if status := ask(t, socket, request("GET", memory(own, "1.5"), "")); status != 200 {
		t.Errorf("got status %d for the events of a sandbox, want 200", status)
	}
	if status := ask(t, socket, request("DELETE", v+"/containers/tracefleet-0123456789abcdef01234567?force=1&v=1", "")); status != 204 {
		t.Errorf("got status %d for its removal, want 204", status)
	}
}

// hostileConfigurations change an honest request to create a container.
func hostileConfigurations() map[string]func(config, host map[string]any) {
	set := func(key string, value any) func(config, host map[string]any) {
		return func(_, host map[string]any) { host[key] = value }
	}
	inner := func(key string, value any) func(config, host map[string]any) {
		return func(config, _ map[string]any) { config[key] = value }
	}
	label := func(key, value string) func(config, host map[string]any) {
		return func(config, _ map[string]any) { config["Labels"].(map[string]any)[key] = value }
	}
	return map[string]func(config, host map[string]any){
		"privileged": set("Privileged", true), "a bind mount": set("Binds", []string{"/:/host"}), "the socket": set("Binds", []string{"/var/run/docker.sock:/s"}),
		"a mount": set("Mounts", []map[string]any{{"Type": "bind", "Source": "/", "Target": "/host"}}), "volumes of another": set("VolumesFrom", []string{"other"}),
		"a capability": set("CapAdd", []string{"SYS_ADMIN"}), "capabilities kept": set("CapDrop", []string{}), "the host's network": set("NetworkMode", "host"),
		"a bridge": set("NetworkMode", "bridge"), "the host's processes": set("PidMode", "host"), "the host's IPC": set("IpcMode", "host"), "the host's UTS": set("UTSMode", "host"),
		"the host's users": set("UsernsMode", "host"), "the host's cgroups": set("CgroupnsMode", "host"), "another cgroup": set("CgroupParent", "/"),
		"no filter": set("SecurityOpt", []string{"no-new-privileges:true", "seccomp=unconfined"}), "new privileges": set("SecurityOpt", []string{}),
		"a device":     set("Devices", []map[string]any{{"PathOnHost": "/dev/sda", "PathInContainer": "/dev/sda", "CgroupPermissions": "rwm"}}),
		"device rules": set("DeviceCgroupRules", []string{"a *:* rwm"}), "a GPU": set("DeviceRequests", []map[string]any{{"Count": -1}}), "a writable root": set("ReadonlyRootfs", false),
		"no masks": set("MaskedPaths", []string{}), "no read-only paths": set("ReadonlyPaths", []string{}), "a tmpfs over /usr": set("Tmpfs", map[string]string{"/usr": "exec"}),
		"another runtime": set("Runtime", "io.containerd.runc.v1"), "no memory limit": set("Memory", 0), "too much memory": set("Memory", 64<<30), "swap": set("MemorySwap", -1),
		"no limit on tasks": set("PidsLimit", -1), "too many tasks": set("PidsLimit", 100_000), "all processors": set("NanoCpus", 64_000_000_000), "no OOM": set("OomKillDisable", true),
		"a log": set("LogConfig", map[string]any{"Type": "syslog", "Config": map[string]string{"syslog-address": "tcp://1.1.1.1:1"}}), "restarts": set("RestartPolicy", map[string]any{"Name": "always"}),
		"ports": set("PortBindings", map[string]any{"80/tcp": []map[string]string{{"HostPort": "80"}}}), "sysctls": set("Sysctls", map[string]string{"kernel.core_pattern": "|/x"}),
		"groups": set("GroupAdd", []string{"0"}), "hosts": set("ExtraHosts", []string{"a:1.1.1.1"}), "core dumps": set("Ulimits", []map[string]any{{"Name": "core", "Soft": -1, "Hard": -1}}),
		"an id file": set("ContainerIDFile", "/etc/x"), "removal by itself": set("AutoRemove", true), "annotations": set("Annotations", map[string]string{"run.oci.hooks": "x"}),
		"another image": inner("Image", "debian:trixie-slim"), "root": inner("User", "0:0"), "a shell": inner("Entrypoint", []string{"/bin/sh"}), "arguments": inner("Cmd", []string{"-x"}),
		"environment": inner("Env", []string{"LD_PRELOAD=/job/x.so"}), "another folder": inner("WorkingDir", "/proc/self/fd/8"), "a network": inner("NetworkDisabled", false),
		"a health check": inner("Healthcheck", map[string]any{"Test": []string{"CMD", "/x"}}), "a terminal": inner("Tty", true), "volumes": inner("Volumes", map[string]any{"/x": map[string]any{}}),
		"another fleet": label("dev.tracefleet.fleet", "other"), "another label": label("com.docker.compose.project", "x"), "no end": label("dev.tracefleet.deadline", "2999-01-01T00:00:00Z"),
		"a worker's name": label("dev.tracefleet.worker", "../x"), "an instance": label("dev.tracefleet.instance", "x"),
		"a network to join": inner("NetworkingConfig", map[string]any{"EndpointsConfig": map[string]any{"bridge": map[string]any{}}}),
	}
}

// honestCreate returns the engine's API version and a maker of the request by which a worker creates a container, changed or not.
func honestCreate(t *testing.T, socket, fleet string) (version string, make func(change func(config, host map[string]any)) string) {
	t.Helper()
	e, err := docker.Open(context.Background(), docker.Config{Host: "unix://" + socket, Fleet: fleet, Worker: "w"}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	body, err := e.SampleCreate(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return e.Facts().APIVersion, func(change func(config, host map[string]any)) string {
		var config map[string]any
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		if err := d.Decode(&config); err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(config, config["HostConfig"].(map[string]any))
		}
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// containerOn makes a container by the engine's own socket, and returns its id.
func containerOn(t *testing.T, config string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", "/var/run/docker.sock")
	}}}
	resp, err := client.Post("http://engine/containers/create", "application/json", strings.NewReader(config))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var made struct {
		ID string `json:"Id"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil || made.ID == "" {
		t.Fatalf("create a container: %v, %s", err, resp.Status)
	}
	t.Cleanup(func() {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodDelete, "http://engine/containers/"+made.ID+"?force=1", nil)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNoContent {
			t.Errorf("the stranger's container was gone before its time: %s", resp.Status)
		}
	})
	return made.ID
}
