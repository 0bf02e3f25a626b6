#!/bin/sh
# A private MariaDB server for tests, in a folder of its own.
#
#	mariadb.sh start DIR [server option...]    prints the socket's path
#	mariadb.sh stop DIR
#	mariadb.sh kill DIR                        as if the power went
#	mariadb.sh sql DIR [client option...]      as root
#
# Reached by unix socket alone, root without password; DIR is mode 0700.
# Needs Debian's mariadb-server-core and mariadb-client-core. What is in DIR
# survives stop and kill; remove DIR to forget it.
# SPDX-License-Identifier: Apache-2.0
set -eu

die() {
	echo "mariadb.sh: $*" >&2
	exit 1
}

[ $# -ge 2 ] || die "usage: mariadb.sh start|stop|kill|sql DIR [...]"
verb=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
shift 2
chmod 700 "$dir"
me=$(id -un)
data=$dir/data
pid_file=$dir/pid

# An address of a unix socket holds 107 bytes: a deep folder gets a short
# name in /tmp that is made from its own.
socket=$dir/sock
if [ ${#socket} -gt 100 ]; then
	short=/tmp/waybill-$(id -u)-$(printf %s "$dir" | cksum | cut -d' ' -f1)
	mkdir -p "$short"
	chmod 700 "$short"
	socket=$short/sock
fi

client() {
	mariadb --no-defaults --user=root --socket="$socket" "$@"
}

answers() {
	client --connect-timeout=1 -e 'DO 1' >/dev/null 2>&1
}

# The process of the pid file, if it still is this folder's server: one
# works in its data folder.
server_pid() {
	[ -s "$pid_file" ] || return 1
	p=$(cat "$pid_file")
	[ "$(readlink "/proc/$p/cwd" 2>/dev/null)" = "$data" ] || return 1
	echo "$p"
}

# Made aside and moved, so that there is never half of one; and the program
# that makes it cannot have a blank in its path.
make_data() {
	aside=$(mktemp -d /tmp/waybill-db.XXXXXX)
	mkdir -p "$dir/tmp"
	if ! TMPDIR=$dir/tmp mariadb-install-db --no-defaults --user="$me" \
		--datadir="$aside" --auth-root-authentication-method=normal \
		--skip-test-db --skip-name-resolve --force \
		--innodb-log-file-size=16M >"$dir/install.log" 2>&1; then
		rm -rf "$aside"
		tail -20 "$dir/install.log" >&2
		die "mariadb-install-db failed"
	fi
	rm -rf "$data.new"
	mv "$aside" "$data.new"
	mv "$data.new" "$data"
}

start() {
	if server_pid >/dev/null && answers; then
		return 0
	fi
	[ -d "$data/mysql" ] || make_data
	rm -f "$pid_file" "$socket"
	PATH=$PATH:/usr/sbin:/usr/libexec
	setsid mariadbd --no-defaults --user="$me" --datadir="$data" \
		--socket="$socket" --pid-file="$pid_file" \
		--log-error="$dir/error.log" --tmpdir="$dir" \
		--lc-messages-dir=/usr/share/mysql \
		--skip-networking --skip-name-resolve --skip-log-bin \
		--character-set-server=utf8mb4 \
		--innodb-log-file-size=16M --innodb-buffer-pool-size=64M \
		"$@" </dev/null >>"$dir/output.log" 2>&1 &
	started=$!
	tries=0
	until answers; do
		if ! kill -0 "$started" 2>/dev/null; then
			tail -20 "$dir/error.log" >&2 || :
			die "the server ended"
		fi
		tries=$((tries + 1))
		[ "$tries" -lt 600 ] || die "no answer in a minute"
		sleep 0.1
	done
}

# end SIGNAL: send it, and wait until the process is gone.
end() {
	p=$(server_pid) || return 0
	kill -"$1" "$p"
	tries=0
	while [ -d "/proc/$p" ] && [ "$(cut -d' ' -f3 "/proc/$p/stat" \
		2>/dev/null)" != Z ]; do
		tries=$((tries + 1))
		[ "$tries" -lt 600 ] || die "process $p does not end"
		sleep 0.05
	done
}

case $verb in
start)
	start "$@"
	echo "$socket"
	;;
stop) end TERM ;;
kill) end KILL ;;
sql) client "$@" ;;
*) die "unknown verb $verb" ;;
esac
