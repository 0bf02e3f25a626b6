#!/bin/bash
# The reference pages are what docgen makes of the tables. BUILD is the folder
# that docgen was built in (default: the source folder).
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
build=$(cd "${BUILD:-$(dirname "$0")/../..}" && pwd)
cd "$(dirname "$0")/../.."
if [ ! -x "$build/docgen" ]; then
	echo "skipped: there is no docgen in $build"
	exit 77
fi
failed=0

same() # PAGE: what docs/ has of it is on stdin
{
	diff -u --label "docs: $1" --label "docgen $1" - \
		<("$build/docgen" "$1") || failed=1
}

for page in configuration errors metrics; do
	same "$page" <"docs/$page.md"
done
part() # FILE PAGE...
{
	local file=$1 page
	shift
	for page; do
		same "$page" < <(
			awk -v name="$page" -v show=1 -f build-aux/splice.awk \
				"docs/$file"
		)
	done
}

part collections.md collections
part openapi.yaml openapi-paths openapi-responses openapi-schemas
[ "$failed" = 0 ] || echo "run: make docs"
exit "$failed"
