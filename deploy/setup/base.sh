#!/usr/bin/env bash
# Makes sure that the engine has the Debian base image: pulled where a registry
# answers, else made from Debian's own packages.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/setup/lib.sh

base=${BASE:-debian:trixie-slim}
if docker image inspect "$base" >/dev/null 2>&1; then
	say "base image: already there ($base)"
	exit 0
fi
if timeout 120 docker pull --quiet "$base" >/dev/null 2>&1; then
	say "base image: pulled $base"
	exit 0
fi
[ "$base" = debian:trixie-slim ] || stop "no registry has $base for us" "docker pull $base"
apt_host || stop "no registry answers and this user cannot make a base image" \
	"on a machine with a registry: docker save $base | ssh THIS-MACHINE docker load" \
	"or as root on Debian: apt-get install mmdebstrap && mmdebstrap --variant=apt trixie | docker import - $base"
if ! have mmdebstrap; then
	say "base image: no registry answers, installing mmdebstrap"
	install_packages mmdebstrap
fi
say "base image: no registry answers, making $base from Debian's packages"
log=$(mktemp)
if ! mmdebstrap --quiet --variant=apt trixie 2>"$log" | docker import - "$base" >/dev/null; then
	tail -n 20 "$log" >&2
	rm -f "$log"
	stop "mmdebstrap failed" "the last lines of its output are above"
fi
rm -f "$log"
say "base image: done ($base)"
