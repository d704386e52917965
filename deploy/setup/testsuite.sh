#!/usr/bin/env bash
# Adds CPython's own tests to the sandbox image, under another tag, for the test that runs them.
#
#   IMAGE=tracefleet/sandbox:latest      the image they are added to
#   TAG=tracefleet/sandbox-test:suite    the tag
#   BASE=debian:trixie-slim              what both are built from
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/setup/lib.sh

tag=${TAG:-tracefleet/sandbox-test:suite}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! docker_build --force-rm --network host --tag "$tag" --build-arg "IMAGE=${IMAGE:-tracefleet/sandbox:latest}" \
	--build-arg "BASE=${BASE:-debian:trixie-slim}" - <sandbox-image/tracer/tests/suite.Dockerfile >"$log" 2>&1; then
	tail -n 30 "$log" >&2
	stop "CPython's tests could not be added to the sandbox image" "the last lines of the build are above"
fi
