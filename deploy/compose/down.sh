#!/usr/bin/env bash
# Stops the Compose fleet. The queue's data is kept in its volume.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Compose reads the file again to stop, and the file insists on a password.
for name in REDIS_WORKER_PASSWORD REDIS_ENQUEUER_PASSWORD REDIS_DASHBOARD_PASSWORD; do export "$name=${!name:-unused}"; done
if docker compose version >/dev/null 2>&1; then docker compose down "$@"; else docker-compose down "$@"; fi
