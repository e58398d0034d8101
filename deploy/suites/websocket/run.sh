#!/bin/sh
# Runs chat.yaml, or the plan that is named first, with the programs of deploy/suites/npm:
#   sh deploy/suites/websocket/run.sh [PLAN] [option of lockstep run ...]
set -eu
here=$(cd "$(dirname -- "$0")" && pwd)
modules=$(sh "$here/../npm.sh")
lockstep=${LOCKSTEP:-$here/../../../build/release/coordinator/lockstep}
plan=$here/chat.yaml
case ${1-} in
*.yaml)
    plan=$1
    shift
    ;;
esac
PATH=$modules/.bin:$PATH exec "$lockstep" run "$plan" --set "targets[node].env.NODE_PATH=$modules" "$@"
