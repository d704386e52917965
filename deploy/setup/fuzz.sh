#!/usr/bin/env bash
# Runs every fuzz target for a moment each. By default that is a number of inputs:
# the go command can take the end of a time for a failure.
#
#   FUZZTIME=10000x  how many inputs, or for how long: 30s
set -euo pipefail
cd "$(dirname "$0")/../.."

each=${FUZZTIME:-10000x}
go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}} {{.ImportPath}}{{end}}' ./... | while read -r dir package; do
	mapfile -t targets < <(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$dir"/*_test.go)
	for target in ${targets[@]+"${targets[@]}"}; do
		printf 'fuzz: %s %s for %s\n' "$package" "$target" "$each"
		out=$(go test -run '^$' -fuzz "^$target\$" -fuzztime "$each" "$package" 2>&1 </dev/null) || {
			printf '%s\n' "$out"
			exit 1
		}
	done
done
