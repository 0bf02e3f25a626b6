#!/bin/bash
# build.sh DIR TARGETS [CONFIGURE-OPTION...]: build this source tree in DIR.
# SPDX-License-Identifier: Apache-2.0
#
# TARGETS is one word for make ("all", "check-programs" ...; several with
# spaces). Only what changed is built; a DIR that was configured for another
# path or with other options is made anew. One build at a time uses a source
# tree, since autotools write into it. What is said goes to DIR.log, whose
# errors are shown on failure.
set -euo pipefail

src=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
dir=$1
targets=$2
shift 2

die()
{
	echo "build: $*" >&2
	exit 1
}

case $src$dir in
*[[:space:]]*)
	die "automake cannot build in a path with a space ($src, $dir): move" \
		"the clone to a path without one (WAYBILL_VAR may keep its)" ;;
esac

mkdir -p "$dir"
dir=$(cd "$dir" && pwd -P)

parson_options()
{
	pkg-config --exists parson 2>/dev/null && return 0
	sh "$src/build-aux/get-parson.sh" "$(dirname "$dir")/parson" || return
	options+=("--with-parson=$(dirname "$dir")/parson")
}

configure()
{
	local want="$src ${options[*]}"
	[ -x "$src/configure" ] || (cd "$src" && autoreconf -fi) || return
	[ "$(cat "$dir/.configured" 2>/dev/null)" != "$want" ] || return 0
	find "$dir" -mindepth 1 -delete
	(cd "$dir" && "$src/configure" "${options[@]}") || return
	printf '%s\n' "$want" >"$dir/.configured"
}

build()
{
	local -a words
	read -ra words <<<"$targets"
	configure && make -C "$dir" --no-print-directory -j"$(nproc)" \
		"${words[@]}"
}

exec 8<"$src/configure.ac"
flock 8
options=("$@")
parson_options || exit 1
if ! build >"$dir.log" 2>&1 8>&-; then
	# Leftovers of another version (a header that is gone) are no reason
	# to fail: only a build from nothing decides.
	find "$dir" -mindepth 1 -delete
	if ! build >"$dir.log" 2>&1 8>&-; then
		grep -n -A 3 -E '(error|undefined reference)|\*\*\*' \
			"$dir.log" | head -n 40 >&2 || tail -n 40 "$dir.log" >&2
		die "failed; the whole log is $dir.log"
	fi
fi
