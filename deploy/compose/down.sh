#!/usr/bin/env bash
# Stops the Compose fleet. The queue's data is kept in its volume.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Compose reads the file again to stop, and the file insists on a password.
export REDIS_PASSWORD=${REDIS_PASSWORD:-unused}
if docker compose version >/dev/null 2>&1; then docker compose down "$@"; else docker-compose down "$@"; fi
