#!/bin/bash
# Code knows only what lies below it: a folder includes folders of a lower
# level, never one of its own; and a foreign library's header has one place.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."

levels='base
db wire
item gate job hook out
api work
main'

owners='mysql.h src/db/ include/db/
fcgiapp.h src/wire/fcgi.c
fcgi_config.h src/wire/fcgi.c
parson.h src/wire/doc.c
zlib.h src/wire/inflate.c
uuid/uuid.h src/base/ids.c
openssl/ src/base/digest.c
curl/curl.h src/wire/client.c'

mapfile -t files < <(find src include -name '*.[ch]' -o -name '*.def' | sort)

awk -v levels="$levels" -v owners="$owners" '
BEGIN {
	n = split(levels, line, "\n")
	for (i = 1; i <= n; i++) {
		m = split(line[i], word, " ")
		for (j = 1; j <= m; j++)
			level[word[j]] = i
	}
	n = split(owners, owner, "\n")
}
function bad(text)
{
	printf "%s:%d: %s\n", FILENAME, FNR, text
	failed = 1
}
/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
	header = $0
	sub(/^[^<"]*[<"]/, "", header)
	sub(/[>"].*/, "", header)
	split(FILENAME, part, "/")
	mine = part[2]
	if (!(mine in level))
		bad("the folder " mine " has no level in tests/lint/levels.sh")
	theirs = header
	if (sub(/\/.*/, "", theirs) && theirs in level && theirs != mine &&
	    level[theirs] >= level[mine])
		bad(mine " includes " header ", which is not below it")
	for (i = 1; i <= n; i++) {
		m = split(owner[i], word, " ")
		if (index(header, word[1]) != 1)
			continue
		ok = 0
		for (j = 2; j <= m; j++)
			if (index(FILENAME, word[j]) == 1)
				ok = 1
		if (!ok)
			bad(header " belongs to " word[2] " alone")
	}
}
END { exit failed }
' "${files[@]}"
