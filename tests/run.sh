#!/bin/sh
# Installs what is missing, builds with warnings as errors, runs every test.
#
#   sh tests/run.sh [options of ctest]       for example: -R common.hist or -L e2e
#
# Ends with "N passed, N failed, N skipped"; the exit status is 0 only if at least one test ran and
# none failed. LS_PRESET picks another preset than dev, LS_JOBS the number of tests at a time,
# LS_TEST_WRAPPER a command to run ctest with (setarch -R).
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
preset=${LS_PRESET:-dev}
build=$root/build/$preset

say() {
    printf 'tests: %s\n' "$*" >&2
}

# Servers live where an ordinary user's PATH does not look.
PATH=$PATH:/usr/sbin:/sbin
export PATH

sh deploy/install.sh build run test >&2

say "building preset $preset"
if command -v ccache >/dev/null 2>&1; then
    CMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER-ccache}
    export CMAKE_C_COMPILER_LAUNCHER
fi
sh deploy/build.sh "$preset"

# Packages that tests alone use, as independent readers of our files. Never run their scripts.
npm_dir=$root/build/npm
if [ -e tests/support/npm/package-lock.json ]; then
    if ! cmp -s tests/support/npm/package-lock.json "$npm_dir/installed.json"; then
        say "npm packages of the tests"
        rm -rf "$npm_dir"
        mkdir -p "$npm_dir"
        cp tests/support/npm/package.json tests/support/npm/package-lock.json "$npm_dir/"
        (cd "$npm_dir" && npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1 </dev/null) || {
            cat "$npm_dir/npm.log" >&2
            say "npm ci failed"
            exit 1
        }
        cp tests/support/npm/package-lock.json "$npm_dir/installed.json"
    fi
    LS_NODE_MODULES=$npm_dir/node_modules
    export LS_NODE_MODULES
fi

# Recorded answers of real servers lie beside some checkouts; tests that read them skip without.
if [ -z "${LS_CAPTURES:-}" ] && [ -d "$root/../shared/captures" ]; then
    LS_CAPTURES=$(CDPATH='' cd -- "$root/../shared/captures" && pwd)
    export LS_CAPTURES
fi

say "running"
junit=$build/ctest.xml
rm -f "$junit"
status=0
# shellcheck disable=SC2086 # words
${LS_TEST_WRAPPER:-} ctest --preset "$preset" --no-tests=error --output-junit "$junit" -j "${LS_JOBS:-2}" "$@" \
    </dev/null || status=$?

[ -e "$junit" ] || exit "$((status > 0 ? status : 1))"
# The counts stand in the first element: <testsuite ... tests="12" failures="1" skipped="2" ...>
awk '
    function count(name,   part) {
        split(text, part, "[ \t]" name "=\"")
        return part[2] + 0
    }
    /<testcase/ { exit }
    { text = text " " $0 }
    END {
        failed = count("failures")
        skipped = count("skipped") + count("disabled")
        printf "%d passed, %d failed, %d skipped\n",
            count("tests") - failed - skipped, failed, skipped
    }' "$junit"
exit "$status"
