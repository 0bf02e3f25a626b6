#!/bin/bash
# load.sh VAR LIMIT-BENCH: the service in VAR (a running ./run) beside the
# bare client, which writes to the same server in the other half of each round.
# SPDX-License-Identifier: Apache-2.0
#
# From the environment: ROUNDS (5) of SECONDS_EACH (8) a case; bash keeps
# SECONDS for itself. A row a case: medians with the lowest and the highest
# round.
set -euo pipefail

usage='usage: [ROUNDS=5] [SECONDS_EACH=8] load.sh VAR LIMIT-BENCH'
var=${1:?$usage}
limit=${2:?$usage}
rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-8}
here=$(cd "$(dirname "$0")" && pwd -P)

die()
{
	echo "load: $*" >&2
	exit 1
}

for program in wrk curl; do
	command -v $program >/dev/null ||
		die "$program is not here: install the package $program"
done
[ -x "$limit" ] || die "$limit is no program: make limit-bench"
[ -r "$var/demo.env" ] || die "no ./run was started in $var"
# shellcheck source=/dev/null
. "$var/demo.env"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# The SKUs' unit.
post_unit()
{
	printf 'header = "Authorization: Bearer %s"\n' "$WAYBILL_KEY" |
		curl -sS -f -K - --noproxy '*' --cacert "$WAYBILL_CA" \
			-H 'Content-Type: application/json' \
			-H "X-Correlation-Id: $(cat /proc/sys/kernel/random/uuid)" \
			-d '{"items":[{"source_id":"EA","source_version":1,"name":"Each"}]}' \
			"$WAYBILL_URL/wms-ingest/v1/master/uoms" >"$tmp/unit" ||
		die "the unit EA was not taken"
}

# One line: items a second, p50, p99.
service() # KIND SIZE SECONDS [warm]
{
	local items p50 p99 wrong
	KIND=$1 N=$2 wrk -t2 -c4 -d"$3s" --timeout 30s -s "$here/items.lua" \
		"$WAYBILL_URL" >"$tmp/wrk" 2>"$tmp/said" ||
		die "wrk failed: $(cat "$tmp/wrk" "$tmp/said")"
	read -r items p50 p99 wrong \
		< <(sed -n 's/^result //p' "$tmp/wrk") ||
		die "wrk gave no result: $(cat "$tmp/wrk")"
	[ "$wrong" = 0 ] || [ "${4:-}" = warm ] ||
		die "$1, $2 a batch: $wrong answers were wrong, as this one:" \
			"$(head -n 1 "$tmp/said")"
	echo "$items $p50 $p99"
}

bare() # SIZE
{
	local said
	said=$("$limit" --conf "$WAYBILL_CONF" --batch "$1" \
		--seconds "$seconds" --connections 4) || die "limit-bench failed"
	awk '{ print $3 }' <<<"$said"
}

# Of a column of FILE: median, lowest, highest.
middle() # FILE COLUMN
{
	awk -v c="$2" '{ print $c }' "$1" | sort -g | awk '
		{ v[NR] = $1 }
		END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2,
			v[1], v[NR] }'
}

row() # CASE
{
	local s sl sh l ll lh p50 p99 rest
	read -r s sl sh < <(middle "$tmp/service" 1)
	read -r p50 rest < <(middle "$tmp/service" 2)
	read -r p99 rest < <(middle "$tmp/service" 3)
	l='' ll='' lh=''
	[ ! -s "$tmp/bare" ] || read -r l ll lh < <(middle "$tmp/bare" 1)
	awk -v name="$1" -v s="$s" -v sl="$sl" -v sh="$sh" -v l="$l" \
		-v ll="$ll" -v lh="$lh" -v p50="$p50" -v p99="$p99" 'BEGIN {
		mine = sprintf("%.0f (%.0f-%.0f)", s, sl, sh)
		bare = l == "" ? "-" : sprintf("%.0f (%.0f-%.0f)", l, ll, lh)
		ratio = l == "" ? "-" : sprintf("%.2f", s / l)
		printf "%-13s %-24s %-24s %5s %8.1f %8.1f\n", name, mine, bare,
			ratio, p50, p99
	}'
}

measure() # KIND SIZE
{
	local i
	: >"$tmp/service"
	: >"$tmp/bare"
	# What is held is made first; and caches are warm for all.
	service "$1" "$2" 3 warm >"$tmp/warm"
	for ((i = 0; i < rounds; i++)); do
		[ "$1" != new ] || bare "$2" >>"$tmp/bare"
		service "$1" "$2" "$seconds" >>"$tmp/service"
	done
	row "$1 $2"
}

post_unit
echo "$rounds rounds of $seconds s, 4 connections, $(nproc) cores"
printf '%-13s %-24s %-24s %5s %8s %8s\n' case 'service items/s' 'L items/s' \
	ratio 'p50 ms' 'p99 ms'
for size in 1000 100 1; do
	measure new $size
done
for kind in update replay; do
	measure $kind 1000
done
