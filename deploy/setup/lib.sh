# Shared by the scripts beside it; read with ".", not run.
# shellcheck shell=bash

say() { printf 'setup: %s\n' "$*"; }

# stop prints what is missing and what to do, and ends the script.
stop() {
	printf 'setup: cannot go on: %s\n' "$1" >&2
	shift
	for line in "$@"; do printf '         %s\n' "$line" >&2; done
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# apt_host tells whether packages can be installed here without asking anybody.
apt_host() { [ "$(id -u)" = 0 ] && have apt-get; }

# install_packages installs Debian packages and starts none of their services:
# a Redis on its usual port would be in the way of the embedded one.
install_packages() {
	local policy=/usr/sbin/policy-rc.d ours=
	if [ ! -e "$policy" ]; then
		ours=yes
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod 755 "$policy"
	fi
	local status=0 log
	log=$(mktemp)
	{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null || status=$?
	if [ -n "$ours" ]; then rm -f "$policy"; fi
	if [ "$status" != 0 ]; then tail -n 20 "$log" >&2; fi
	rm -f "$log"
	[ "$status" = 0 ] || stop "apt-get install $* failed" "the last lines of its output are above"
}

# package_known tells whether apt could install the package.
package_known() { [ -n "$(apt-cache search --names-only "^$1\$" 2>/dev/null)" ]; }

# docker_build runs docker build with the builder that is there: BuildKit where
# its client plugin is installed, else the one that every engine has.
docker_build() {
	if docker buildx version >/dev/null 2>&1; then
		docker build "$@"
	else
		DOCKER_BUILDKIT=0 docker build "$@" 2> >(grep -v -e DEPRECATED -e 'BuildKit is currently disabled' -e 'environment-variable' -e '^$' >&2)
	fi
}

# register_runtime NAME PATH [ARGUMENT...] makes an OCI runtime known to the
# local engine, which reads its configuration again and is not restarted.
register_runtime() {
	local name=$1 changed known
	[ "$(id -u)" = 0 ] || stop "only root may add a runtime to the engine" "run this as root, or add $name to /etc/docker/daemon.json yourself: $*"
	changed=$(go run ./deploy/setup/addruntime "$@")
	known=$(docker info --format '{{range $name, $_ := .Runtimes}}{{$name}} {{end}}')
	if [ "$changed" = unchanged ] && [[ " $known" == *" $name "* ]]; then
		say "$name: the engine knows it already"
		return
	fi
	if [ -d /run/systemd/system ]; then
		systemctl reload docker
	else
		kill -HUP "$(cat /run/docker.pid)"
	fi
	for _ in $(seq 50); do
		known=$(docker info --format '{{range $name, $_ := .Runtimes}}{{$name}} {{end}}')
		if [[ " $known" == *" $name "* ]]; then
			say "$name: done, the engine knows it"
			return
		fi
		sleep 0.1
	done
	stop "the engine did not take the runtime $name" "see the engine's log, and /etc/docker/daemon.json"
}
