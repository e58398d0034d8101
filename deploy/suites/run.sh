#!/bin/sh
# Builds Lockstep and installs what the suites run, where that is not done yet, and runs one of them:
#   sh deploy/suites/run.sh elide [--quick] [option of lockstep run ...]
# The first word may also name one plan: elide/startup.yaml.
set -eu
here=$(cd "$(dirname -- "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
if [ $# -eq 0 ] || [ ! -e "$here/$1" ]; then
    printf 'usage: sh deploy/suites/run.sh elide|esrun|elysia-vs-fastify|rune [option of lockstep run ...]\n' >&2
    exit 2
fi
suite=$1
shift
sh "$here/npm.sh" >/dev/null
# Redis, Python and nginx of Debian. Without the right to install them their rows are skipped.
case $suite in
elide* | esrun*)
    sh "$root/deploy/install.sh" suites || printf 'run.sh: goes on without what could not be installed\n' >&2
    ;;
esac
lockstep=${LOCKSTEP:-}
if [ -z "$lockstep" ]; then
    sh "$root/deploy/install.sh" build
    sh "$root/deploy/build.sh" release lockstep lockstep-agent
    lockstep=$root/build/release/coordinator/lockstep
fi
exec "$lockstep" run "$here/$suite" "$@"
