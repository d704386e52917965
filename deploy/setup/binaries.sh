#!/usr/bin/env bash
# Builds the commands into bin/.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/setup/lib.sh

have go || stop "there is no go command" "install Go 1.26 or later: https://go.dev/dl/"
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo devel)}
CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/execra/tracefleet/internal/buildinfo.version=$version" -o bin/ ./worker ./enqueuer ./deploy/socketproxy
say "binaries: bin/worker, bin/enqueuer and bin/socketproxy are up to date ($version)"
