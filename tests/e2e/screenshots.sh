#!/bin/sh
# Pictures of the report and of the live page as they are seen: light, dark, narrow, on paper; of a
# small run, of made-up ones, and of any result. Makes what it needs; takes two minutes.
#
#   sh tests/e2e/screenshots.sh [FOLDER [RESULT]]      FOLDER is build/screenshots unless named
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
folder=${1:-$root/build/screenshots}
mkdir -p "$folder"
LS_SCREENSHOTS=$(CDPATH='' cd -- "$folder" && pwd)
export LS_SCREENSHOTS
if [ $# -gt 1 ]; then
    LS_RESULT=$(CDPATH='' cd -- "$2" && pwd)
    export LS_RESULT
fi
cd "$root"
sh deploy/install.sh build run test browser
sh deploy/build.sh dev lockstep lockstep-agent make_result e2e_harness
LS_E2E_LONG=1 ctest --preset dev -R '^e2e\.(report|live)$' --no-tests=error
find "$LS_SCREENSHOTS" -name '*.png' | sort
