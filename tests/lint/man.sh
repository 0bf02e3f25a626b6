#!/bin/bash
# The manual pages are well-formed.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
mapfile -t pages < <(find docs/man -name '*.[1-8]' | sort)
if [ ${#pages[@]} = 0 ]; then
	echo "skipped: there are no pages in docs/man"
	exit 77
fi
mandoc -Tlint -W warning "${pages[@]}"
