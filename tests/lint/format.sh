#!/bin/bash
# clang-format decides how C looks.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."
find src include tests -name '*.[ch]' -print0 | sort -z |
	xargs -0 clang-format --dry-run --Werror
