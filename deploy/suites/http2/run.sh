#!/bin/sh
# Runs h2c.yaml with the programs of deploy/suites/npm:
#   sh deploy/suites/http2/run.sh [option of lockstep run ...]
set -eu
here=$(cd "$(dirname -- "$0")" && pwd)
modules=$(sh "$here/../npm.sh")
lockstep=${LOCKSTEP:-$here/../../../build/release/coordinator/lockstep}
PATH=$modules/.bin:$PATH exec "$lockstep" run "$here/h2c.yaml" "$@"
