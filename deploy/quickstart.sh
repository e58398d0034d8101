#!/bin/sh
# From a bare Debian 12 to a comparison of two HTTP servers: installs what is missing, builds a
# release, runs deploy/plans/quickstart.yaml.
#
#   sh deploy/quickstart.sh [options of "lockstep run"]
#
# As root, or as a user with sudo (only the installation uses it). Works from any folder. The exit
# status is that of "lockstep run".
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
build=$root/build/release
plan=$root/deploy/plans/quickstart.yaml

say() {
    printf 'quickstart: %s\n' "$*" >&2
}

# Servers live where an ordinary user's PATH does not look.
PATH=$PATH:/usr/sbin:/sbin
export PATH

say "1/3 packages"
sh "$root/deploy/install.sh" build run >&2

say "2/3 release build in $build"
sh "$root/deploy/build.sh" release >&2

# A result folder of its own, unless the caller names one or only asks for help.
out=$root/out/quickstart-$(date -u +%Y%m%d-%H%M%S)
for word in "$@"; do
    case $word in
    --out | --out=* | --resume | --resume=* | --help | -h) out= ;;
    esac
done

say "3/3 $plan (nginx and Node.js, three times each, in turn: about a minute)"
status=0
"$build/coordinator/lockstep" run "$plan" ${out:+--out "$out"} "$@" || status=$?
if [ -n "$out" ] && [ -d "$out" ]; then
    say "the result is in $out; see it again: $build/coordinator/lockstep report $out"
fi
exit "$status"
