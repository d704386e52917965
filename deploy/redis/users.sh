#!/bin/sh
# Writes the users of users.conf as Redis reads them (aclfile) to standard output.
# A password comes from the file named by WORKER_PASSWORD_FILE, or else from
# WORKER_PASSWORD; the same for ENQUEUER and DASHBOARD. A user without one is left
# out, and default is off. Only the hashes are written.
set -eu
umask 077
here=$(dirname "$0")

# hash NAME prints the SHA-256 of the password of a user, nothing when there is none.
hash() {
	file=$(printenv "${1}_PASSWORD_FILE" || true)
	password=$(printenv "${1}_PASSWORD" || true)
	if [ -n "$file" ]; then password=$(head -n 1 "$file"); fi
	if [ -n "$password" ]; then printf '%s' "$password" | sha256sum | cut -d ' ' -f 1; fi
}

# One user a line, as the file must have them; no comments.
sed -e '/^#/d' -e '/^$/d' "${USERS_CONF:-$here/users.conf}" | awk '
	/^user / { if (line != "") print line; line = $0; next }
	{ gsub(/^ +/, ""); line = line " " $0 }
	END { print line }' | while read -r line; do
	case $line in
	*@WORKER@*) name=WORKER ;;
	*@ENQUEUER@*) name=ENQUEUER ;;
	*@DASHBOARD@*) name=DASHBOARD ;;
	*)
		printf '%s\n' "$line"
		continue
		;;
	esac
	hashed=$(hash "$name")
	if [ -n "$hashed" ]; then
		printf '%s\n' "$line" | sed "s/@$name@/$hashed/"
	elif [ "$name" = DASHBOARD ]; then
		printf 'user default off resetpass resetkeys resetchannels -@all\n'
	fi
done
