#!/usr/bin/env bash
# Installs crun from the distribution's packages and makes it known to the local
# Docker engine.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/setup/lib.sh

if ! have crun; then
	apt_host || stop "there is no crun" "on Debian or Ubuntu: sudo apt-get install crun"
	say "crun: installing crun"
	install_packages crun
fi
register_runtime crun "$(command -v crun)"
