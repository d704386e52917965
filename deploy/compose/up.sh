#!/usr/bin/env bash
# Builds the images that docker-compose.yml names, where they are missing or
# old, makes passwords for Redis and a token for the API once, and starts the fleet.
#
#   deploy/compose/up.sh [arguments for "compose up", such as --scale worker=3]
set -euo pipefail
cd "$(dirname "$0")/../.."

. deploy/setup/lib.sh
say() { printf 'up: %s\n' "$*"; }

# Compose v2 where the client has it, else v1.29.
compose=(docker-compose)
if docker compose version >/dev/null 2>&1; then compose=(docker compose); fi

have_image() { docker image inspect "$1" >/dev/null 2>&1; }

# build runs a docker build and shows what it printed only when it failed.
build() { # build TAG ARGUMENTS…
  local tag=$1 log
  shift
  log=$(mktemp)
  if ! docker_build --tag "$tag" "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    rm -f "$log"
    stop "$tag could not be built" "the last lines of the build are above"
  fi
  rm -f "$log"
  say "$tag built"
}

# binary_image builds a FROM scratch image around one static binary.
binary_image() { # binary_image BINARY TAG
  local context
  context=$(mktemp -d)
  cp "$1" "$context/program"
  build "$2" --file deploy/compose/binary.Dockerfile "$context"
  rm -rf "$context"
}

for name in worker enqueuer socketproxy; do
  binary_image "bin/$name" "tracefleet/$name:latest"
done

if have_image "${TRACEFLEET_REDIS_IMAGE:-tracefleet/redis:7}"; then
  say "redis image: already there"
elif docker pull --quiet redis:7-bookworm >/dev/null 2>&1; then
  docker tag redis:7-bookworm tracefleet/redis:7
  say "redis image: pulled"
else
  say "redis image: no registry answers, building it from the Debian base"
  build tracefleet/redis:7 --network host --file deploy/compose/redis.Dockerfile deploy/compose
fi

if have_image "${TRACEFLEET_ASYNQMON_IMAGE:-tracefleet/asynqmon:0.7.2}"; then
  say "asynqmon image: already there"
elif docker pull --quiet hibiken/asynqmon:0.7.2 >/dev/null 2>&1; then
  docker tag hibiken/asynqmon:0.7.2 tracefleet/asynqmon:0.7.2
  say "asynqmon image: pulled"
else
  say "asynqmon image: no registry answers, building it from its Go module"
  GOBIN="$PWD/build/asynqmon" CGO_ENABLED=0 go install -trimpath -ldflags '-s -w' github.com/hibiken/asynqmon/cmd/asynqmon@v0.7.2
  binary_image build/asynqmon/asynqmon tracefleet/asynqmon:0.7.2
fi

# Passwords live in .env, which Compose reads and git ignores.
for name in REDIS_WORKER_PASSWORD REDIS_ENQUEUER_PASSWORD REDIS_DASHBOARD_PASSWORD; do
  if [ -z "${!name:-}" ] && ! grep -qs "^$name=" .env; then
    (umask 077 && printf '%s=%s\n' "$name" "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')" >>.env)
    say "made $name in .env"
  fi
done

# The file of tokens holds hashes: it is no secret, and the server, which runs as
# nobody in particular, has to read it. The token itself stands in .env.
tokens=deploy/compose/secrets/tokens
if [ ! -s "$tokens" ]; then
  mkdir -p "$(dirname "$tokens")"
  token=$(bin/enqueuer token --name admin --role operate --file "$tokens")
  (umask 077 && touch .env && sed -i '/^TRACEFLEET_TOKEN=/d' .env && printf 'TRACEFLEET_TOKEN=%s\n' "$token" >>.env)
  say "made TRACEFLEET_TOKEN in .env, and its hash in $tokens"
fi
chmod 755 "$(dirname "$tokens")"
chmod 644 "$tokens"

"${compose[@]}" up --detach --remove-orphans "$@"
"${compose[@]}" ps
say "trace a program: http://127.0.0.1:${TRACEFLEET_PORT:-8080} (sign in with TRACEFLEET_TOKEN of .env)"
say "dashboard: http://127.0.0.1:${TRACEFLEET_ASYNQMON_PORT:-8081}"
say "or from here: ${compose[*]} run --rm -T enqueuer trace - < examples/off_by_one/main.py"
