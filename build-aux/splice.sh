#!/bin/sh
# splice.sh DOCGEN FILE PAGE...: puts what docgen makes into its places in FILE.
# SPDX-License-Identifier: Apache-2.0
set -eu
docgen=$1 file=$2
here=$(dirname "$0")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
shift 2
cp "$file" "$tmp/page"
for page; do
	"$docgen" "$page" >"$tmp/block"
	awk -v name="$page" -v block="$tmp/block" -f "$here/splice.awk" \
		"$tmp/page" >"$tmp/new"
	mv "$tmp/new" "$tmp/page"
done
cat "$tmp/page" >"$file"
