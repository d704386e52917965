#!/usr/bin/env bash
# Builds the sandbox image when what goes into it has changed.
#
#   PYTHON_PACKAGES="python3-numpy"  Debian packages to add
#   IMAGE=tracefleet/sandbox:latest  its tag
#   BASE=debian:trixie-slim          what it is built from
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/setup/lib.sh

image=${IMAGE:-tracefleet/sandbox:latest}
base=${BASE:-debian:trixie-slim}
packages=${PYTHON_PACKAGES:-}

# The context, laid out as the Dockerfile says.
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
architecture=$(docker version --format '{{.Server.Arch}}')
CGO_ENABLED=0 GOOS=linux GOARCH=$architecture go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$context/supervisor" ./sandbox-image/supervisor
cp sandbox-image/Dockerfile sandbox-image/assemble.sh "$context/"
cp -R sandbox-image/tracer "$context/tracer"
find "$context/tracer" \( -name tests -o -name testdata -o -name '*_test.go' -o -name __pycache__ -o -name '*.pyc' -o -name '.*_cache' \) -prune -exec rm -rf {} +
# The same input gives the same image whatever the umask of the checkout.
chmod -R u=rwX,go=rX "$context"
chmod 755 "$context/supervisor"

inputs=$({
	printf '%s\n' "$packages" "$(docker image inspect --format '{{.Id}}' "$base")"
	cd "$context"
	find . -type f | LC_ALL=C sort | xargs sha256sum
} | sha256sum | cut -d ' ' -f 1)
if [ "$(docker image inspect --format '{{index .Config.Labels "tracefleet.inputs"}}' "$image" 2>/dev/null)" = "$inputs" ]; then
	say "sandbox image: already there ($image)"
	exit 0
fi

say "sandbox image: building $image${packages:+ with $packages}"
log=$(mktemp)
if ! docker_build --force-rm --network host --tag "$image" --label "tracefleet.inputs=$inputs" \
	--build-arg "BASE=$base" --build-arg "PYTHON_PACKAGES=$packages" \
	--build-arg "VERSION=$(git describe --tags --always --dirty 2>/dev/null || echo devel)" "$context" >"$log" 2>&1; then
	tail -n 40 "$log" >&2
	rm -f "$log"
	stop "the sandbox image could not be built" "the last lines of the build are above"
fi
rm -f "$log"
# The image of before stays: workers that run have taken it by its digest.
say "sandbox image: done ($image, $(($(docker image inspect --format '{{.Size}}' "$image") / 1000000)) MB)"
