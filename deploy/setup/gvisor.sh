#!/usr/bin/env bash
# Builds gVisor's runsc from the Go module proxy and makes it known to the local
# Docker engine. The binary is kept in build/ by version; the engine is told to
# read its configuration again, not restarted.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/setup/lib.sh

version=v0.0.0-20260701204157-69c2d17aea96
binary=$PWD/build/runsc-$version

if [ ! -x "$binary" ]; then
	have go || stop "there is no go command" "install Go 1.26 or later: https://go.dev/dl/"
	say "gVisor: building runsc $version, which takes some minutes"
	# A module of its own: gVisor's requirements are none of ours.
	module=$(mktemp -d)
	trap 'rm -rf "$module"' EXIT
	log=$module/log
	mkdir -p build
	(
		cd "$module"
		go mod init runsc.build
		go get "gvisor.dev/gvisor/runsc@$version"
		CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X gvisor.dev/gvisor/runsc/version.version=$version" \
			-o "$binary.new" gvisor.dev/gvisor/runsc
	) >"$log" 2>&1 || {
		tail -n 20 "$log" >&2
		stop "runsc could not be built" "the last lines of the build are above"
	}
	mv "$binary.new" "$binary"
fi
say "gVisor: binary is up to date ($("$binary" --version | head -n 1))"
# Outside the checkout, so that "make clean" does not take it from the engine.
installed=/usr/local/bin/runsc
if ! cmp -s "$binary" "$installed"; then
	[ "$(id -u)" = 0 ] || stop "only root may install runsc" "run this as root, or install $binary yourself"
	install -m 755 "$binary" "$installed.new"
	mv "$installed.new" "$installed"
fi
# Without this flag runsc ignores the seccomp profile that the engine hands it.
register_runtime runsc "$installed" --oci-seccomp
