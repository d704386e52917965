#!/bin/sh
# Traces every example with a worker of its own: an embedded Redis on a free
# port, and the Docker sandbox. Run it from anywhere after make setup.
# Ends with an error when a trace does not come back as it should.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
bin=$here/../bin
log=$(mktemp)
worker=

cleanup() {
	status=$?
	trap - EXIT INT TERM
	if [ -n "$worker" ] && kill "$worker" 2>/dev/null; then
		wait "$worker" || true
	fi
	if [ "$status" -ne 0 ] && [ "$status" -ne 130 ]; then
		echo "demo: the worker's log:" >&2
		cat "$log" >&2
	fi
	rm -f "$log"
	exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for command in worker enqueuer; do
	if [ ! -x "$bin/$command" ]; then
		echo "demo: $bin/$command is missing; run: make setup" >&2
		exit 1
	fi
done

# Port 0 lets the system choose; the worker logs what it got, and when it is ready.
"$bin/worker" --redis embedded:0 --fleet "demo-$$" --log-format json ${IMAGE:+--image "$IMAGE"} 2>"$log" &
worker=$!
redis=
while [ -z "$redis" ]; do
	if ! kill -0 "$worker" 2>/dev/null; then
		echo "demo: the worker did not start" >&2
		exit 1
	fi
	redis=$(sed -n 's/.*"message":"worker is ready".*"redis":"\([^"]*\)".*/\1/p' "$log")
	[ -n "$redis" ] || sleep 0.1
done

# example NAME TEXT-THAT-MUST-BE-THERE ARGUMENTS… traces one example and shows it.
example() {
	name=$1 wanted=$2
	shift 2
	printf '\n\n════ examples/%s %s\n\n' "$name" "$*"
	(cd "$here" && "$bin/enqueuer" trace --redis "$redis" --color "$color" "$name" "$@") >"$log.out" || {
		rm -f "$log.out"
		echo "demo: $name could not be traced" >&2
		exit 1
	}
	cat "$log.out"
	found=$(grep -c "$wanted" "$log.out" || true)
	rm -f "$log.out"
	if [ "$found" -eq 0 ]; then
		echo "demo: the trace of $name does not say: $wanted" >&2
		exit 1
	fi
}

color=never
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
	color=always
fi

example off_by_one 'IndexError: list index out of range'
example endless_loop 'still running after 2 s' --wall 2s
example reads_stdin 'sum: 123' --stdin reads_stdin/stdin.txt
example two_files "KeyError: 'jam'"
example mutable_default "into = \['red', 'blue'\]"
example generator 'iterable argument is empty'

printf '\nTraced every example.\n'
