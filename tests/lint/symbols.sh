#!/bin/sh
# No two objects of the three libraries define the same name: with static libraries the linker takes
# either, without a word.
#
#   sh tests/lint/symbols.sh LIBRARY.a...
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
. "$here/files.sh"

if ! command -v nm >/dev/null 2>&1; then
    echo "lint symbols: skipped, nm is not installed"
    exit 77
fi
for library in "$@"; do
    [ -e "$library" ] || {
        printf 'lint symbols: %s is not built\n' "$library"
        exit 1
    }
done
# "LIBRARY.a[OBJECT.o]: NAME TYPE VALUE SIZE"; the sanitizers' own names start with two underscores.
nm -A -P -g --defined-only "$@" | awk '
    $2 !~ /^__/ && $3 ~ /^[TDBRC]$/ {
        sub(/:$/, "", $1)
        sub(/^.*\//, "", $1)
        if ($2 in at)
            printf "%s: defined in %s and in %s\n", $2, at[$2], $1
        at[$2] = $1
    }' | lint_verdict symbols
