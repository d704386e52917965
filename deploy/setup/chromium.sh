#!/usr/bin/env bash
# Makes sure that there is a Chromium: the trace viewer is tested in it. Nothing
# that is shipped needs one.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/setup/lib.sh

program=${TRACEFLEET_CHROMIUM:-chromium}
if have "$program"; then
	say "Chromium: already there ($("$program" --version 2>/dev/null | sed 's/[^0-9]*\([0-9.]*\).*/\1/'))"
	exit 0
fi
apt_host || stop "there is no Chromium, which the tests of the trace viewer need" \
	"on Debian: sudo apt-get install chromium" \
	"one of another name: TRACEFLEET_CHROMIUM=/path/to/it"
say "Chromium: installing chromium"
install_packages chromium fonts-dejavu-core
say "Chromium: done"
