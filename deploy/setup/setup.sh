#!/usr/bin/env bash
# Prepares a machine for Tracefleet: binaries, Docker engine, what the tests need
# (redis-server, a C compiler, Chromium), base image, sandbox image. Every step says what
# it did; run it as often as you like.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/setup/lib.sh

started=$SECONDS
for step in binaries engine redis compiler chromium base image; do
	"deploy/setup/$step.sh"
done
say "ready after $((SECONDS - started)) s"
