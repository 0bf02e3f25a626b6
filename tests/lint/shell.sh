#!/bin/bash
# Shell scripts are clean under shellcheck.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
mapfile -t scripts < <(
	printf '%s\n' run check .ci/run
	find build-aux tests -name '*.sh' | sort
)
# autoconf puts scripts of its own into build-aux; only ours have the line.
for script in "${scripts[@]}"; do
	grep -q 'SPDX-License-Identifier' "$script" && printf '%s\0' "$script"
done | xargs -0 shellcheck -x
