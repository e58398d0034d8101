#!/bin/sh
# Configures a preset of CMakePresets.json if need be and builds it; quiet unless it fails.
#
#   sh deploy/build.sh PRESET [TARGET...]
#
# The whole output is in build/PRESET.log.
set -eu

[ $# -gt 0 ] || {
    echo "build: say which preset: sh deploy/build.sh dev" >&2
    exit 2
}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
preset=$1
shift
dir=build/$preset
log=build/$preset.log
mkdir -p build

# Runs a step; on failure shows what it said.
step() {
    "$@" >"$log" 2>&1 </dev/null || {
        cat "$log" >&2
        printf 'build: preset %s failed at: %s\n' "$preset" "$*" >&2
        exit 1
    }
}

# A build folder remembers its checkout: one that was moved or copied is configured anew, and so
# is one whose configuration did not end. Whatever else changes, ninja notices by itself.
here=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$dir/CMakeCache.txt" 2>/dev/null || :)
if [ "$here" != "$root" ]; then
    step cmake --fresh --preset "$preset"
elif [ ! -e "$dir/build.ninja" ]; then
    step cmake --preset "$preset"
fi
if [ $# -gt 0 ]; then
    step cmake --build --preset "$preset" --target "$@"
else
    step cmake --build --preset "$preset"
fi
