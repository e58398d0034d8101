#!/bin/sh
# Every C file is as .clang-format would write it. Repair: clang-format -i FILE.
#
#   sh tests/lint/format.sh [ROOT]
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
. "$here/files.sh"
cd "${1:-$here/../..}"

if ! command -v clang-format >/dev/null 2>&1; then
    echo "lint format: skipped, clang-format is not installed"
    exit 77
fi
tree_c_files . | tr '\n' '\0' | xargs -0 -r clang-format --dry-run 2>&1 |
    grep -E 'warning:|error:' | lint_verdict format
