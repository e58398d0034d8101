#!/bin/sh
# The smaller builds, as releases: the agent alone, and lockstep without its web server and bundles. What is left out
# is not loaded, who asks for it is told, and the agent alone makes a package, too. Not a ctest: it builds twice.
#
#   sh tests/e2e/minimal.sh
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
say() { printf 'minimal: %s\n' "$*"; }
fail() {
    say "FAILED: $*"
    exit 1
}
# build NAME OPTION...: in build/minimal-NAME.
build() {
    build=$root/build/minimal-$1
    shift
    mkdir -p "$build"
    {
        cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLS_WERROR=ON "$@" && cmake --build "$build"
    } >"$build/log" 2>&1 || {
        tail -n 40 "$build/log"
        fail "it does not build with $*"
    }
}
# loads_none PROGRAM LIBRARY...
loads_none() {
    program=$1
    shift
    for library in "$@"; do
        ! ldd "$program" | grep -q "$library" || fail "$program loads $library"
    done
}

build agent -DLS_BUILD_COORDINATOR=OFF
[ ! -e "$build/coordinator" ] || fail 'there is a coordinator'
agent=$build/agent/lockstep-agent
"$agent" --version --verbose >/dev/null
loads_none "$agent" libmicrohttpd libarchive libsqlite3
say "the agent alone: $(ldd "$agent" | grep -c '=>') libraries, $(($(stat -L -c %s "$agent") / 1024)) KiB"
if command -v dpkg-shlibdeps >/dev/null; then
    (cd "$build" && cpack >cpack.log 2>&1) || fail "no package: $(tail -n 5 "$build/cpack.log")"
    dpkg-deb --contents "$build"/lockstep_*.deb >"$build/contents"
    grep -q '/usr/bin/lockstep-agent$' "$build/contents" || fail 'the agent is not in its package'
    ! grep -q -e '/usr/bin/lockstep$' -e 'lockstep\.1' "$build/contents" || fail 'lockstep is in the package of the agent alone'
fi

build small -DLS_BUILD_WEB=OFF -DLS_BUILD_BUNDLES=OFF
lockstep=$build/coordinator/lockstep
loads_none "$lockstep" libmicrohttpd libarchive libicu
"$lockstep" --version --verbose >"$build/version"
! grep -q -e microhttpd -e libarchive "$build/version" || fail 'it says that it has libmicrohttpd or libarchive'
code=0
(cd "$build" && "$lockstep" run "$root/deploy/plans/anywhere.yaml" --ui --out "$build/result") >"$build/said" 2>&1 || code=$?
[ "$code" -ne 0 ] || fail 'it has a page without a web server'
grep -q 'LS_BUILD_WEB=OFF' "$build/said" || fail "it does not say what is missing: $(cat "$build/said")"
code=0
(cd "$build" && "$lockstep" verify "$build/version") >"$build/said" 2>&1 || code=$?
[ "$code" -ne 0 ] || fail 'it reads a bundle without libarchive'
grep -q 'LS_BUILD_BUNDLES=OFF' "$build/said" || fail "it does not say what is missing: $(cat "$build/said")"
say "without the web server and bundles: $(ldd "$lockstep" | grep -c '=>') libraries"
say ok
