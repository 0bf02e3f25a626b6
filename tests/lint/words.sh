#!/bin/bash
# What no file of the repository may hold, and what each must.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
failed=0

files()
{
	git ls-files -z 2>/dev/null && return
	# A tree without git: all but what autotools made.
	find . -type f -not -path './var/*' -not -path './autom4te.cache/*' \
		-not -name 'configure' -not -name '*~' -not -name aclocal.m4 \
		-not -name Makefile.in -not -name config.h.in \
		-not \( -path './build-aux/*' -not -name '*.*' \) \
		-not -name install-sh -not -name ar-lib -printf '%P\0'
}

never() # WHY PATTERN
{
	local found
	found=$(files | xargs -0 grep -nIE -- "$2" 2>/dev/null) || :
	[ -n "$found" ] || return 0
	printf '%s:\n%s\n' "$1" "$found"
	failed=1
}

# Written so that this file does not hold what it looks for.
never "something is left undone" '\b(TO''DO|FIX''ME|XX''X)\b'
never "a package registry or mirror is named: apt's own sources are used" \
	'(deb|security|ftp|archive)\.[a-z.]*debian''\.org|registry\.np''mjs|py''pi\.org'
never "a path of one machine: a build is named by WAYBILL_TEST_PROGRAMS" \
	'/tmp/bu''ild'
never "a path of one machine" '(^|[^A-Za-z0-9_.$}])/(ro''ot|wo''rk|ho''me)/[a-z]'

while IFS= read -r -d '' file; do
	case $file in
	*.c | *.h | *.def | *.sh | *.awk | *.py | *.sql | *.ac | *.am | *.in | \
		run | check) ;;
	*) continue ;;
	esac
	# Of the .in files only templates: autoconf's are not ours.
	case $file in Makefile.in | config.h.in) continue ;; esac
	if ! grep -q 'SPDX-License-Identifier: Apache-2.0' "$file"; then
		echo "$file: no SPDX-License-Identifier line"
		failed=1
	fi
done < <(files)
exit $failed
