#!/bin/bash
# quota.sh VAR PROGRAMS: what an item quota costs, on the service in VAR (a
# running ./run). Two partners, one without a quota and one with a quota that
# is never used up, take turns in each round.
# SPDX-License-Identifier: Apache-2.0
#
# From the environment: ROUNDS (5) of SECONDS_EACH (6) a case and partner. A
# row a case: medians with the lowest and the highest round, and the ratio of
# the medians.
set -euo pipefail

usage='usage: [ROUNDS=5] [SECONDS_EACH=6] quota.sh VAR PROGRAMS'
var=${1:?$usage}
programs=${2:?$usage}
rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-6}
here=$(cd "$(dirname "$0")" && pwd -P)

die()
{
	echo "quota: $*" >&2
	exit 1
}

for program in wrk curl; do
	command -v $program >/dev/null ||
		die "$program is not here: install the package $program"
done
[ -r "$var/demo.env" ] || die "no ./run was started in $var"
# shellcheck source=/dev/null
. "$var/demo.env"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

waybill()
{
	"$programs/waybill" --conf "$WAYBILL_CONF" "$@"
}

# A partner with its unit; its key is in $tmp/NAME.
partner() # NAME [--quota N]
{
	waybill partner add "$@" >"$tmp/said"
	waybill key create "$1" >"$tmp/$1"
	printf 'header = "Authorization: Bearer %s"\n' "$(cat "$tmp/$1")" |
		curl -sS -f -K - --noproxy '*' --cacert "$WAYBILL_CA" \
			-H 'Content-Type: application/json' \
			-H "X-Correlation-Id: $(cat /proc/sys/kernel/random/uuid)" \
			-d '{"items":[{"source_id":"EA","source_version":1,"name":"Each"}]}' \
			"$WAYBILL_URL/wms-ingest/v1/master/uoms" >"$tmp/said" ||
		die "the unit EA was not taken"
}

# Items a second.
load() # PARTNER KIND SIZE SECONDS [warm]
{
	local items p50 p99 wrong
	WAYBILL_KEY=$(cat "$tmp/$1") KIND=$2 N=$3 wrk -t2 -c4 -d"$4s" \
		--timeout 30s -s "$here/items.lua" "$WAYBILL_URL" \
		>"$tmp/wrk" 2>"$tmp/said" ||
		die "wrk failed: $(cat "$tmp/wrk" "$tmp/said")"
	read -r items p50 p99 wrong < <(sed -n 's/^result //p' "$tmp/wrk") ||
		die "wrk gave no result: $(cat "$tmp/wrk")"
	[ "$wrong" = 0 ] || [ "${5:-}" = warm ] ||
		die "$2, $3 a batch: $wrong answers were wrong, as this one:" \
			"$(head -n 1 "$tmp/said") (p50 $p50, p99 $p99)"
	echo "$items"
}

middle() # FILE
{
	sort -g "$1" | awk '
		{ v[NR] = $1 }
		END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2,
			v[1], v[NR] }'
}

measure() # KIND SIZE
{
	local i who
	for who in FREE QUOTA; do
		: >"$tmp/$who.$1.$2"
		load $who "$1" "$2" 2 warm >"$tmp/warm"
	done
	# Who is first takes turns too.
	for ((i = 0; i < rounds; i++)); do
		for who in $( ((i % 2)) && echo QUOTA FREE || echo FREE QUOTA); do
			load "$who" "$1" "$2" "$seconds" >>"$tmp/$who.$1.$2"
		done
	done
	awk -v name="$1 $2" -v free="$(middle "$tmp/FREE.$1.$2")" \
		-v quota="$(middle "$tmp/QUOTA.$1.$2")" 'BEGIN {
		split(free, f, " ")
		split(quota, q, " ")
		printf "%-12s %-26s %-26s %5.2f\n", name,
			sprintf("%.0f (%.0f-%.0f)", f[1], f[2], f[3]),
			sprintf("%.0f (%.0f-%.0f)", q[1], q[2], q[3]),
			q[1] / f[1]
	}'
}

partner FREE
partner QUOTA --quota 1000000000000
echo "$rounds rounds of $seconds s each, 4 connections, $(nproc) cores"
printf '%-12s %-26s %-26s %5s\n' case 'without, items/s' 'with a quota' ratio
for size in 1000 100 1; do
	measure new $size
done
measure again 100
