#!/bin/sh
# Who may include whom: the layers of DESIGN, as far as a grep can tell.
#
#   sh tests/lint/includes.sh [ROOT]
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
. "$here/files.sh"
root=${1:-$here/../..}
cd "$root"

tree_c_files . >/dev/null # fails here, not in a pipe
tree_c_files . | awk -f "$here/includes.awk" | lint_verdict includes
