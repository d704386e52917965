#!/usr/bin/env bash
# Makes sure that a Docker engine answers. A running one is used as it is,
# wherever DOCKER_HOST points; else one is installed and started, as root on
# Debian or Ubuntu only.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/setup/lib.sh

answers() { have docker && timeout 10 docker version --format '{{.Server.Version}}' 2>/dev/null; }

if version=$(answers); then
	say "engine: already there (Docker $version)"
	exit 0
fi
if [ -n "${DOCKER_HOST:-}" ]; then
	stop "no Docker engine answers at DOCKER_HOST=$DOCKER_HOST" "start it, or unset DOCKER_HOST to use the one of this machine"
fi
if [ -S /var/run/docker.sock ] && [ ! -w /var/run/docker.sock ]; then
	stop "you may not use the Docker engine of this machine" \
		"run this as root, or join the group and log in again: sudo usermod -aG docker $(id -un)" \
		"or run a rootless engine: https://docs.docker.com/engine/security/rootless/"
fi
if ! have dockerd || ! have docker; then
	apt_host || stop "there is no Docker engine" \
		"on Debian or Ubuntu: sudo apt-get install docker.io, then run this again" \
		"elsewhere: https://docs.docker.com/engine/install/"
	say "engine: installing docker.io"
	apt-get update >/dev/null 2>&1 || true # install_packages says what is wrong
	packages=(docker.io)
	if package_known docker-cli; then packages+=(docker-cli); fi
	install_packages "${packages[@]}"
fi

if [ -d /run/systemd/system ]; then
	systemctl start docker || stop "the Docker engine did not start" "see: systemctl status docker" "or, not as root: sudo systemctl start docker"
elif [ "$(id -u)" = 0 ]; then
	log=/var/log/tracefleet-dockerd.log
	say "engine: starting dockerd (log $log, process id in /run/docker.pid)"
	setsid nohup dockerd >"$log" 2>&1 </dev/null &
else
	stop "the Docker engine is not running" "start it as root: sudo dockerd"
fi

for _ in $(seq 120); do
	if version=$(answers); then
		say "engine: done (Docker $version)"
		exit 0
	fi
	if [ -n "${log:-}" ] && ! kill -0 $! 2>/dev/null; then break; fi
	sleep 0.5
done
if [ -n "${log:-}" ]; then tail -n 20 "$log" >&2; fi
stop "the Docker engine did not come up" "see ${log:-journalctl -u docker}"
