#!/bin/sh
# Assembles the root of the sandbox image in the folder given: the interpreter,
# its library and the shared libraries they need, nothing else.
set -eu
out=$1

python=$(readlink -f /usr/bin/python3)
version=$(basename "$python") # python3.13

mkdir -p "$out/usr/bin" "$out/usr/lib" "$out/usr/lib64" "$out/usr/lib/python3/dist-packages" "$out/etc" "$out/usr/share"
for name in bin lib lib64; do ln -s "usr/$name" "$out/$name"; done
cp "$python" "$out/usr/bin/"
ln -s "$version" "$out/usr/bin/python3"
ln -s python3 "$out/usr/bin/python"

# The library without what a job cannot use.
cp -a "/usr/lib/$version" "$out/usr/lib/"
if [ -d /usr/lib/python3/dist-packages ]; then cp -a /usr/lib/python3/dist-packages "$out/usr/lib/python3/"; fi
(cd "$out/usr/lib/$version" && rm -rf test idlelib ensurepip turtledemo tkinter lib2to3 config-* ./*.egg-info EXTERNALLY-MANAGED sitecustomize.py)
find "$out" -name __pycache__ -prune -exec rm -rf {} +
cp -a /usr/share/zoneinfo "$out/usr/share/"

# Shared libraries: what the interpreter, its extension modules and those of
# added packages link to, under the names by which the loader asks for them.
find "$out/usr/bin" "$out/usr/lib" -type f \( -perm -u+x -o -name '*.so' -o -name '*.so.*' \) -exec ldd {} + 2>/dev/null \
	| awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// && $2 ~ /^\(/ { print $1 }' | sort -u >/tmp/libraries
gcc_s=$(ldconfig -p | awk '$1 == "libgcc_s.so.1" { print $NF; exit }') # opened by name when a thread is cancelled
echo "$gcc_s" >>/tmp/libraries
while read -r library; do
	[ -n "$library" ] || continue
	to="$out$(readlink -f "$(dirname "$library")")"
	mkdir -p "$to"
	[ -e "$to/$(basename "$library")" ] || cp -L "$library" "$to/"
done </tmp/libraries
printf 'root:x:0:0:root:/:/nonexistent\njob:x:64000:64000:job:/tmp:/nonexistent\n' >"$out/etc/passwd"
printf 'root:x:0:\njob:x:64000:\n' >"$out/etc/group"
ldconfig -r "$out"

# Absolute names in the compiled files are those of the image.
"$python" -m compileall -q -f --invalidation-mode unchecked-hash -s "$out" -p / "$out/usr/lib/$version" "$out/usr/lib/python3" || true

# The places that a sandbox mounts its own memory over. Some runtimes take the
# mode from the image's folder.
for folder in job tmp dev/shm; do
	mkdir -p "$out/$folder"
	chmod 1777 "$out/$folder"
done
for folder in proc sys; do mkdir "$out/$folder"; done

# Nothing with a set-id bit, no broken link.
find "$out" -perm /6000 -type f -exec chmod a-s {} +
find "$out" -xtype l -delete
