#!/usr/bin/env bash
# Runs every attack through the fleet under each OCI runtime and writes one table,
# also to docs/security-report.md.
#
#   RUNTIMES="runc runsc crun"       runtimes to try; runc must work
#   IMAGE=tracefleet/sandbox:latest  the sandbox image
#   REPORT=docs/security-report.md   the page to write
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/setup/lib.sh

image=${IMAGE:-tracefleet/sandbox:latest}
runtimes=${RUNTIMES:-runc runsc crun}
notes=$(mktemp -d)
trap 'rm -rf "$notes"' EXIT

refused=()
files=()
failed=
for runtime in $runtimes; do
	# The supervisor leaves with 0 when its input ends before a job.
	if ! said=$(timeout 60 docker run --rm --interactive --network none --runtime "$runtime" "$image" 2>&1 </dev/null >/dev/null); then
		[ "$runtime" != runc ] || stop "runc starts no container" "$said"
		say "attack: this engine does not take $runtime"
		refused+=(-refused "$runtime=$(printf '%s' "$said" | head -n 1)")
		continue
	fi
	say "attack: $runtime"
	CGO_ENABLED=0 go test -count=1 -timeout 20m ./internal/e2e -run '^TestAttacks$' -image "$image" -runtime "$runtime" \
		-report "$notes/$runtime" >"$notes/log" 2>&1 || {
		failed=yes
		grep -v '"level":\|result: {' "$notes/log" | cut -c 1-400 | head -n 60 >&2
	}
	[ ! -s "$notes/$runtime" ] || files+=("$notes/$runtime")
done
go run ./deploy/setup/attackreport -o "${REPORT:-docs/security-report.md}" "${refused[@]}" "${files[@]}"
[ -z "$failed" ] || stop "an attack failed" "see above"
