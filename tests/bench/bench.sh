#!/bin/bash
# bench.sh PROGRAMS [quota]: load.sh, or quota.sh, on a Waybill of its own, made
# from these programs in a temporary folder on free ports, and removed again.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

programs=$(cd "${1:?usage: bench.sh PROGRAMS [quota]}" && pwd -P)
root=$(cd "$(dirname "$0")/../.." && pwd -P)

command -v wrk >/dev/null || {
	echo "bench: wrk is not here: install the package wrk" >&2
	exit 1
}

# Below the range the kernel gives to clients.
free_port()
{
	local port
	while port=$((20000 + RANDOM % 12000)); do
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	done
	echo "$port"
}

WAYBILL_VAR=$(mktemp -d "${TMPDIR:-/tmp}/waybill-bench.XXXXXX")
WAYBILL_PORT=$(free_port)
WAYBILL_ADMIN_PORT=$WAYBILL_PORT
while [ "$WAYBILL_ADMIN_PORT" = "$WAYBILL_PORT" ]; do
	WAYBILL_ADMIN_PORT=$(free_port)
done
export WAYBILL_VAR WAYBILL_PORT WAYBILL_ADMIN_PORT

clean_up()
{
	"$root/run" stop || :
	rm -rf "$WAYBILL_VAR"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
"$root/run" --programs "$programs" start >"$WAYBILL_VAR/start.txt"
case ${2:-load} in
quota) "$root/tests/bench/quota.sh" "$WAYBILL_VAR" "$programs" ;;
*) "$root/tests/bench/load.sh" "$WAYBILL_VAR" "$programs/limit-bench" ;;
esac
