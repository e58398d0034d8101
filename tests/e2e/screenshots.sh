#!/bin/sh
# Pictures of the report as it is seen: light, dark, narrow, on paper, of a real run and of made-up
# ones. Makes what it needs; takes a minute.
#
#   sh tests/e2e/screenshots.sh [FOLDER]      FOLDER is build/screenshots unless named
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
folder=${1:-$root/build/screenshots}
mkdir -p "$folder"
LS_SCREENSHOTS=$(CDPATH='' cd -- "$folder" && pwd)
export LS_SCREENSHOTS
cd "$root"
sh deploy/install.sh build run test browser
sh deploy/build.sh dev lockstep lockstep-agent make_result e2e_harness
LS_E2E_LONG=1 ctest --preset dev -R '^e2e\.(report|live)$' --no-tests=error
find "$LS_SCREENSHOTS" -name '*.png' | sort
