#!/usr/bin/env bash
# Makes sure that there is a C compiler: the race detector's tests are linked
# with it. Nothing that is shipped needs one.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/setup/lib.sh

compiler=$(go env CC)
if have "$compiler" && printf '#include <stdlib.h>\n' | "$compiler" -E - >/dev/null 2>&1; then
	say "C compiler: already there ($compiler)"
	exit 0
fi
apt_host || stop "there is no C compiler, which go test -race needs" "on Debian or Ubuntu: sudo apt-get install gcc libc6-dev"
say "C compiler: installing gcc"
install_packages gcc libc6-dev
say "C compiler: done"
