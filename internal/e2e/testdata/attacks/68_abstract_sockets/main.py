"""Looks for unix sockets of the host by their abstract names and in files."""
import errno
import os
import socket

def probe(name, contained, detail=""):
    print("PROBE", name, "ok" if contained else "BREACH", detail, flush=True)


def connect(address):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
        end.settimeout(1)
        try:
            end.connect(address)
        except OSError as error:
            return True, errno.errorcode.get(error.errno, str(error))
    return False, "connected"


try:
    with open("/proc/net/unix") as file:
        named = [fields[7] for fields in (line.split() for line in file.read().splitlines()[1:]) if len(fields) > 7]
except OSError:
    named = []
probe("sockets_of_others", not named, " ".join(named)[:200])
for name in ("containerd-shim", "/tmp/.X11-unix/X0", "/org/freedesktop/systemd1/notify", "docker-plugin", "dbus-system", "ISCSIADM_ABSTRACT_NAMESPACE"):
    probe("abstract:" + name, *connect("\0" + name))
for path in ("/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/docker/metrics.sock", "/run/dbus/system_bus_socket",
             "/run/systemd/private", "/run/podman/podman.sock", "/run/crio/crio.sock", "/run/snapd.socket"):
    probe("path:" + path, *connect(path))
print("DONE")
