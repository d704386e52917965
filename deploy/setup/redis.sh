#!/usr/bin/env bash
# Makes sure that the tests find a redis-server program. It is not started here:
# every test that needs one starts its own.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/setup/lib.sh

program=${TRACEFLEET_REDIS_SERVER:-redis-server}
if have "$program"; then
	say "redis: already there ($("$program" --version | sed 's/.*v=\([^ ]*\).*/\1/'))"
	exit 0
fi
apt_host || stop "there is no redis-server, which the tests need" \
	"on Debian or Ubuntu: sudo apt-get install redis-server" \
	"elsewhere: https://redis.io/docs/latest/operate/oss_and_stack/install/ (6.2 or later)"
say "redis: installing redis-server"
install_packages redis-server
say "redis: done"
