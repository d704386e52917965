#!/bin/sh
# Builds _recorder.so for the python3 that runs, into the folder given.
set -eu
here=$(dirname "$0")
include=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
version=$(python3 -c 'import sys; print(sys.version.replace("\n", " "))')
exec gcc -shared -fPIC -std=gnu11 -O3 -flto -fno-plt -fvisibility=hidden -Wall -Wextra -Werror -DNDEBUG \
	-isystem "$include" -DBUILD_VERSION="\"$version\"" -o "$1/_recorder.so" "$here"/*.c
