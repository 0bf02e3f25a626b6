#!/bin/sh
# nginx.sh FOLDER OPTION...: nginx with this prefix, once no other sits there.
#
# A master that is killed leaves its workers, and they keep its ports: the next
# master could not bind, and nobody would replace what the orphans lose. So
# they are told to finish, and ended after 3 seconds. Callers repeat what was
# cut off. The shell then becomes nginx, so that signals reach it.
# SPDX-License-Identifier: Apache-2.0
set -eu

folder=${1:?usage: nginx.sh FOLDER OPTION...}
shift
cd "$folder"
folder=$(pwd -P)

left()
{
	for proc in /proc/[0-9]*; do
		read -r name <"$proc/comm" && [ "$name" = nginx ] &&
			[ "$(readlink "$proc/cwd")" = "$folder" ] &&
			! grep -q '^State:[[:space:]]*Z' "$proc/status" &&
			echo "${proc#/proc/}"
	done 2>/dev/null
	:
}

for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
	pids=$(left)
	[ -n "$pids" ] || break
	# shellcheck disable=SC2086 # one a word
	case $try in
	1) kill -QUIT $pids 2>/dev/null || : ;;
	15) kill -KILL $pids 2>/dev/null || : ;;
	esac
	sleep 0.2
done
exec nginx -p "$folder/" "$@"
